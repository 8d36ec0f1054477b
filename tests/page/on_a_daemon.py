"""The page in a browser, on a real airampd that watches a real job. `python3 on_a_daemon.py ADDRESS JOB RANK`

Compares what it shows with what the API says, then asks (by the line "stop RANK" on standard output) that somebody
stop that rank, and waits until the page names it. Run by `tests/tests/page.rs`.
"""

import json
import pathlib
import sys
import threading
import time
import urllib.request

import reading
import webdriver

CHECKS = pathlib.Path(__file__).with_name("checks.js").read_text()


class Answers:
    """All looks that the API gave while the page was open, by their time."""

    def __init__(self, address):
        self.address = address
        self.nodes = {}
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self):
        while True:
            with urllib.request.urlopen(f"{self.address}/api/v1/node", timeout=30) as response:
                node = json.load(response)
            self.nodes[node["time_unix_ms"]] = node
            time.sleep(0.1)

    def at(self, time_unix_ms):
        return self.nodes.get(time_unix_ms)


def main(address, job, rank):
    browser = webdriver.Browser()
    try:
        answers = Answers(address)
        browser.open(address)
        choose(browser, job)
        updates(browser)
        equals_the_api(browser, answers, job)
        is_readable(browser)
        names_the_late_rank(browser, job, rank)
        expect(browser.complaints(), [], "complaints of the browser")
    finally:
        browser.close()


def expect(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: {json.dumps(found)}\nwanted: {json.dumps(wanted)}")


def choose(browser, job):
    browser.wait_for("""
        const tab = [...document.querySelectorAll('#job-tabs button')].find((tab) => tab.querySelector('.name').textContent.endsWith(`Job ${arguments[0]}`));
        tab?.click(); return Boolean(tab);""", job, what=f"job {job}")


def updates(browser):
    state = "return document.querySelector('[data-figure=logical] .value').dataset.value"
    before = browser.run(state)
    browser.wait_for(f"const now = (() => {{ {state} }})(); return now !== arguments[0] && document.querySelectorAll('.line.logical[d*=L]').length > 0", before, what="an update")
    browser.wait_for("return Number(document.querySelector('[data-figure=logical-rate] .value').dataset.value) > 0", what="a rate")


def equals_the_api(browser, answers, job):
    """The page is paused, so that it stays at one look, which was also asked for beside it."""
    compared = 0
    deadline = time.monotonic() + webdriver.PATIENCE_S
    while compared < 3 and time.monotonic() < deadline:
        browser.click("#pause")
        browser.wait_for("return document.body.dataset.link === 'paused'")
        time.sleep(0.5)
        node = answers.at(int(browser.run("return document.body.dataset.time")))
        if node:
            expect(reading.numbers(reading.shown(browser)), reading.numbers(reading.expected(node, job)), "what the page shows of a look")
            compared += 1
        before = browser.run("return document.body.dataset.time")
        browser.click("#pause")
        browser.wait_for("return document.body.dataset.time !== arguments[0]", before)
    expect(compared, 3, "looks that were compared")


def is_readable(browser):
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for width, height in ((360, 780), (1280, 900), (1920, 1080)):
            browser.size(width, height)
            before = browser.run("return document.body.dataset.time")
            browser.wait_for("return document.body.dataset.time !== arguments[0]", before)
            expect(browser.run(CHECKS, 4.5), [], f"{scheme}, {width} wide")
            browser.picture(f"live-{scheme}-{width}")


def names_the_late_rank(browser, job, rank):
    print(f"stop {rank}", flush=True)
    browser.wait_for("""
        return [...document.querySelectorAll('#findings-list li')].some((it) => ["late rank", "hang"].some((kind) => it.textContent.includes(`${kind}, job ${arguments[0]}, rank ${arguments[1]},`)))""", job, rank, what=f"a finding about rank {rank}")
    browser.picture("live-stopped-rank")
    print("named", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
