"""The page in a browser, on data that a stand-in makes up. `python3 on_a_stand_in.py [-v] [Case.test]`

With AIRAMP_PAGE_PICTURES=folder it leaves screenshots there. Run by `tests/tests/page.rs`.
"""

import pathlib
import sys
import time
import unittest

import reading
import stand_in
import webdriver

CHECKS = pathlib.Path(__file__).with_name("checks.js").read_text()
READY = "return !document.getElementById('content').hidden && document.body.dataset.link === 'live'"
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'


class Page(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.browser = webdriver.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.browser.chrome("Storage.clearDataForOrigin", origin="*", storageTypes="all")
        self.browser.prefer("light")
        self.browser.size(1280, 900)
        self.complaints_expected = False

    def tearDown(self):
        found = self.browser.complaints()
        self.browser.open("about:blank")
        if not self.complaints_expected:
            self.assertEqual(found, [])

    def serve(self, **options):
        served = stand_in.StandIn(**options)
        self.addCleanup(lambda: served.stop())
        return served

    def show(self, served, query=""):
        self.browser.open(f"{served.address}/{query}")
        self.browser.wait_for(READY)

    def looks_again(self):
        """Waits until the page has shown another look than now."""
        before = self.browser.run("return document.body.dataset.time")
        self.browser.wait_for("return document.body.dataset.time !== arguments[0]", before, what="another look")


class Appearance(Page):
    def test_every_size_and_scheme_is_readable_and_within_the_window(self):
        served = self.serve()
        self.show(served)
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            for width, height in ((360, 780), (768, 1024), (1280, 900), (1920, 1080)):
                with self.subTest(scheme=scheme, width=width):
                    self.browser.size(width, height)
                    self.looks_again()
                    self.assertEqual(self.browser.run(CHECKS, 4.5), [])
                    self.browser.picture(f"{scheme}-{width}")

    def test_the_wall_layout_is_readable_and_leaves_out_what_needs_a_hand(self):
        served = self.serve()
        self.browser.prefer("dark")
        for width, height in ((1920, 1080), (3840, 2160)):
            self.browser.size(width, height)
            self.show(served, "?wall")
            self.looks_again()
            self.assertEqual(self.browser.run(CHECKS, 4.5), [])
            self.assertFalse(self.browser.run("return document.getElementById('event-text').checkVisibility()"))
            self.browser.picture(f"wall-{width}", whole=False)

    def test_64_ranks_fit(self):
        served = self.serve()

        def grow(node):
            job = node["jobs"][0]
            job["ranks"] = [{**job["ranks"][rank % 4], "rank": rank, "late": rank == 3} for rank in range(64)]
            lags = served.history[job["label"]]["lag_s"]
            for rank in range(4, 64):
                lags[str(rank)] = list(lags[str(rank % 3)])

        served.change(grow)
        self.show(served)
        for width in (360, 1280, 1920):
            self.browser.size(width, 900)
            self.looks_again()
            self.assertEqual(self.browser.run(CHECKS, 4.5), [])
            self.browser.picture(f"ranks-64-{width}")

    def test_the_chosen_theme_is_remembered_and_beats_the_system(self):
        served = self.serve()
        self.show(served)
        page_colour = "return getComputedStyle(document.body).backgroundColor"
        light = self.browser.run(page_colour)
        self.browser.run("const theme = document.getElementById('theme'); theme.value = 'dark'; theme.dispatchEvent(new Event('change'))")
        dark = self.browser.run(page_colour)
        self.assertNotEqual(light, dark)
        self.show(served)
        self.assertEqual(self.browser.run(page_colour), dark)
        self.browser.run("const theme = document.getElementById('theme'); theme.value = 'system'; theme.dispatchEvent(new Event('change'))")
        self.assertEqual(self.browser.run(page_colour), light)


class Numbers(Page):
    def test_every_number_is_the_one_of_the_api(self):
        served = self.serve()
        self.show(served)
        node = served.freeze()
        self.browser.wait_for("return document.body.dataset.time === arguments[0]", str(node["time_unix_ms"]))
        for label in [job["label"] for job in node["jobs"]]:
            index = [job["label"] for job in node["jobs"]].index(label)
            self.browser.run("document.querySelectorAll('#job-tabs button')[arguments[0]].click()", index)
            with self.subTest(job=label):
                self.assertEqual(reading.numbers(reading.shown(self.browser)), reading.numbers(reading.expected(node, label)))

    def test_what_is_not_known_is_a_dash_and_not_a_zero(self):
        served = self.serve()
        served.change(lambda node: node["jobs"][0]["gain"].update(speedup=None))
        self.show(served)
        speedup = self.browser.run("const it = document.querySelector('[data-figure=job-speedup] .value'); return [it.textContent, it.title, it.dataset.value]")
        self.assertEqual(speedup, ["–", "not known", ""])

    def test_the_rate_of_an_interface_is_that_between_two_readings_of_it(self):
        """The daemon looks once a second, and reads the hardware less often."""
        served = self.serve()
        start = served.freeze()["time_unix_ms"] + 60_000
        for after_ms, age_s, sent in ((0, 0.0, 1e9), (1000, 1.0, 1e9), (5000, 0.0, 6e9), (6010, 1.0, 6e9)):
            def read(node):
                node.update(time_unix_ms=start + after_ms, nics_age_s=age_s)
                node["nics"][0]["sent_bytes"] = int(sent)
            served.change(read)
            if after_ms == 0:
                self.show(served)
            self.browser.wait_for("return document.body.dataset.time === arguments[0]", str(start + after_ms))
        self.assertEqual(self.browser.run("return Number(document.querySelector('#nic-strip [data-fact=Sending] dd').dataset.value)"), 1e9)

    def test_numbers_are_written_with_their_units(self):
        self.show(self.serve())
        text = self.browser.run("return Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((it) => [it.dataset.figure, it.querySelector('.value').textContent]))")
        self.assertEqual([text[name] for name in ("logical-rate", "wire-rate", "job-saved", "job-speedup", "communication", "overhead")],
                         ["80.0 Gbit/s", "60.8 Gbit/s", "1.44 TiB", "1.91×", "41%", "320 ns"])

    def test_decisions_are_sentences_with_their_reason(self):
        self.show(self.serve())
        told = self.browser.run("return [...document.querySelectorAll('.decisions li')].map((it) => [...it.children].map((line) => line.textContent))")
        self.assertIn(["AllReduce of bfloat16, 64 KiB to 256 KiB: calls go to the vendor from call 96 on.", "0.91 times the vendor's speed: below 1.05.",
                       "0.91×, error 8.6e-5, communicator 9f1c03a7, told by rank 0"], told)


class Updates(Page):
    def test_numbers_and_plots_move_by_themselves(self):
        self.show(self.serve())
        state = "return [document.querySelector('[data-figure=logical] .value').dataset.value, document.querySelector('.line.logical').getAttribute('d')]"
        before = self.browser.run(state)
        self.browser.wait_for(f"const now = (() => {{ {state} }})(); return now.every((value, index) => value !== arguments[0][index])", before)

    def test_a_paused_page_asks_nothing_and_goes_on_when_told(self):
        served = self.serve()
        self.show(served)
        self.browser.click("#pause")
        self.browser.wait_for("return document.body.dataset.link === 'paused'")
        self.assertEqual(self.browser.run("return document.getElementById('pause').getAttribute('aria-pressed')"), "true")
        self.stays_silent(served)
        self.browser.click("#pause")
        self.looks_again()

    def test_a_hidden_page_asks_nothing_and_goes_on_when_seen(self):
        served = self.serve()
        self.show(served)
        hidden = self.browser.new_tab()
        time.sleep(1.5)
        self.stays_silent(served)
        self.browser.close_tab(hidden)
        self.looks_again()

    def stays_silent(self, served):
        """Requests under way may still arrive, late on a busy machine; then none comes for three seconds."""
        deadline = time.monotonic() + 30
        asked = None
        while served.asked != asked:
            self.assertLess(time.monotonic(), deadline, "it keeps asking")
            asked = served.asked
            time.sleep(3)

    def test_focus_selection_and_scrolling_survive_an_update(self):
        self.show(self.serve())
        self.browser.run("document.querySelector('#job-tabs button').focus(); document.querySelector('.decisions').parentElement.scrollTop = 40")
        self.looks_again()
        self.looks_again()
        self.assertEqual(self.browser.run("return [document.activeElement.getAttribute('role'), document.querySelector('.decisions').parentElement.scrollTop]"), ["tab", 40])


class States(Page):
    def test_a_daemon_that_is_gone_leaves_grey_data_with_its_time(self):
        self.complaints_expected = True
        served = self.serve()
        self.show(served)
        served.stop()
        self.browser.wait_for("return document.body.dataset.link === 'stale'")
        text = self.browser.run("return document.getElementById('stale').textContent")
        self.assertRegex(text, r"^airampd does not answer since \d\d:\d\d:\d\d\. What you see is from then\. The page keeps asking\.$")
        self.assertIn("grayscale", self.browser.run("return getComputedStyle(document.getElementById('content')).filter"))
        self.assertEqual(self.browser.run(CHECKS, 4.5), [])
        self.browser.picture("gone", whole=False)
        served.restart()
        self.browser.wait_for(READY)
        self.assertTrue(self.browser.run("return document.getElementById('stale').hidden"))

    def test_without_a_job_it_says_what_to_do(self):
        served = self.serve()
        served.change(lambda node: node.update(jobs=[], findings=[], events=[], devices=[], nics=[], rdma_ports=[], tcp={}))
        self.show(served)
        self.assertIn("airamp run -- your-program", self.browser.run("return document.getElementById('no-job').innerText"))
        self.assertFalse(self.browser.run("return document.getElementById('jobs-body').checkVisibility()"))
        self.assertIn("No findings", self.browser.run("return document.getElementById('findings').innerText"))
        self.assertEqual(self.browser.run(CHECKS, 4.5), [])
        self.browser.picture("no-job", whole=False)

    def test_text_from_others_stays_text(self):
        served = self.serve()

        def spoil(value, key=""):
            if isinstance(value, dict):
                return {name: spoil(each, name) for name, each in value.items()}
            if isinstance(value, list):
                return [spoil(each, key) for each in value]
            safe = ("severity", "state", "process_state", "decision", "what", "mode")
            return f"{HOSTILE}{value}" if isinstance(value, str) and key not in safe else value

        served.change(lambda node: node.update(spoil(node)))
        self.show(served)
        self.looks_again()
        self.browser.run("document.querySelectorAll('details').forEach((it) => { it.open = true })")
        self.looks_again()
        self.assertEqual(self.browser.run("return [window.hacked ?? null, document.images.length, document.scripts.length]"), [None, 0, 1])
        self.assertIn(HOSTILE, self.browser.run("return document.querySelector('#job h3').textContent"))
        for width in (360, 1280):
            self.browser.size(width, 900)
            self.assertEqual(self.browser.run(CHECKS, 4.5), [])
            self.browser.picture(f"hostile-{width}")

    def test_a_token_is_asked_for_and_kept_for_the_tab(self):
        self.complaints_expected = True
        served = self.serve(token="open sesame")
        self.browser.open(served.address)
        self.browser.wait_for("return document.getElementById('token-form').checkVisibility()")
        self.assertFalse(self.browser.run("return document.getElementById('content').checkVisibility()"))
        self.browser.picture("token", whole=False)
        self.browser.run("document.getElementById('token').focus()")
        self.browser.press("wrong", "Enter")
        self.browser.wait_for("return document.body.dataset.link === 'token'")
        self.browser.run("document.getElementById('token').value = ''; document.getElementById('token').focus()")
        self.browser.press("open sesame", "Enter")
        self.browser.wait_for(READY)
        self.assertEqual(self.browser.run("return location.search"), "")
        self.show(served)

    def test_an_answer_that_makes_no_sense_does_not_end_the_page(self):
        self.complaints_expected = True
        served = self.serve()
        self.show(served)
        jobs = served.node["jobs"]
        served.change(lambda node: node.update(jobs=[{"label": "half", "ranks": [{}], "classes": [{}], "decisions": [{}], "communicators": 5}]))
        self.browser.wait_for("return document.querySelector('#job h3').textContent === 'Job half'")
        served.change(lambda node: node.update(jobs=jobs))
        self.browser.wait_for("return document.querySelector('#job h3').textContent === 'Job 4711'")


class Keyboard(Page):
    def test_tab_reaches_every_control_and_shows_where_it_is(self):
        self.show(self.serve())
        self.browser.run("""
            window.reached = [];
            document.addEventListener('focusin', (event) => {
              const style = getComputedStyle(event.target);
              window.reached.push([event.target, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]);
            });
            document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');""")
        wanted = "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')].filter((it) => it.tabIndex >= 0 && it.checkVisibility())"
        for _ in range(self.browser.run(f"return {wanted}.length") + 2):
            self.browser.press("Tab")
        left_out = self.browser.run(f"const met = new Set(window.reached.map(([it]) => it)); return {wanted}.filter((it) => !met.has(it)).map((it) => it.outerHTML.slice(0, 120))")
        self.assertEqual(left_out, [])
        unseen = self.browser.run("return window.reached.filter(([it, seen]) => it !== document.body && !seen).map(([it]) => it.outerHTML.slice(0, 120))")
        self.assertEqual(unseen, [])
        self.assertEqual(self.browser.run("return window.reached.map(([it]) => it).filter((it) => it !== document.body)[0].className"), "skip")

    def test_the_skip_link_leads_to_the_content(self):
        self.show(self.serve())
        self.browser.run("document.querySelector('.skip').focus()")
        self.browser.press("Enter")
        self.browser.wait_for("return document.activeElement.id === 'main'")

    def test_a_job_that_runs_is_shown_before_one_that_has_ended(self):
        served = self.serve()
        served.change(lambda node: node["jobs"][0].update(state="ended", ended_unix_ms=node["time_unix_ms"]))
        self.show(served)
        self.assertEqual(self.browser.run("return document.querySelector('#job h3').textContent"), "Job without a name")
        self.browser.run("document.querySelectorAll('#job-tabs button')[0].click()")
        self.looks_again()
        self.assertEqual(self.browser.run("return document.querySelector('#job h3').textContent"), "Job 4711")

    def test_the_arrow_keys_walk_through_the_jobs(self):
        self.show(self.serve())
        self.browser.run("document.querySelector('#job-tabs [aria-selected=true]').focus()")
        chosen = "return [document.activeElement.textContent.includes(arguments[0]), document.activeElement.getAttribute('aria-selected'), document.querySelector('#job h3').textContent]"
        self.browser.press("ArrowDown")
        self.assertEqual(self.browser.run(chosen, "bob"), [True, "true", "Job without a name"])
        self.browser.press("ArrowRight")
        self.assertEqual(self.browser.run(chosen, "alice"), [True, "true", "Job 4711"])

    def test_the_arrow_keys_read_out_a_plot(self):
        served = self.serve()
        self.show(served)
        self.browser.click("#pause")
        self.browser.run("document.querySelector('.plot-frame').focus()")
        said = "return document.querySelector('.plot-frame').getAttribute('aria-valuetext')"
        newest = self.browser.run(said)
        self.browser.press("ArrowLeft", "ArrowLeft")
        self.assertNotEqual(self.browser.run(said), newest)
        self.assertRegex(self.browser.run(said), r"^\d\d:\d\d:\d\d: logical [\d.]+ Gbit/s, on the wire [\d.]+ Gbit/s")
        self.assertEqual(self.browser.run(said), self.browser.run("return document.querySelector('.readout').textContent"))

    def test_everything_that_can_be_used_has_a_name(self):
        self.show(self.serve())
        self.browser.chrome("Accessibility.enable")
        nodes = self.browser.chrome("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "slider", "tab", "tabpanel", "region", "navigation", "search", "table", "DisclosureTriangle"}
        used = [node for node in nodes if not node["ignored"] and node["role"]["value"] in roles]
        self.assertGreater(len(used), 25)
        self.assertEqual([node["role"] for node in used if not node.get("name", {}).get("value", "").strip() and node["role"]["value"] != "table"], [])


class Evidence(Page):
    LIST = "return [...document.querySelectorAll('#evidence-list li')].map((it) => [it.firstChild.textContent, it.firstChild.getAttribute('href')])"

    def test_the_files_are_listed_newest_first_with_the_way_to_them(self):
        served = self.serve()
        self.show(served)
        self.browser.wait_for(f"return (() => {{ {self.LIST} }})().length === 3")
        name = served.evidence["files"][2]["name"]
        self.assertEqual(self.browser.run(self.LIST)[0], [name, f"/api/v1/evidence/{name}"])
        self.assertIn("3 files in /var/lib/airamp/evidence", self.browser.run("return document.getElementById('evidence-about').textContent"))
        self.assertIn("40 KiB", self.browser.run("return document.getElementById('evidence-list').textContent"))

    def test_a_file_is_fetched_with_the_token_where_there_is_one(self):
        self.complaints_expected = True
        served = self.serve(token="open sesame")
        self.browser.open(served.address)
        self.browser.wait_for("return document.getElementById('token-form').checkVisibility()")
        self.browser.run("document.getElementById('token').focus()")
        self.browser.press("open sesame", "Enter")
        self.browser.wait_for("return document.querySelector('#evidence-list a') !== null")
        self.browser.run("document.querySelector('#evidence-list a').click()")
        name = served.evidence["files"][2]["name"]
        deadline = time.monotonic() + webdriver.PATIENCE_S
        while name not in served.fetched and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(served.fetched, [name])

    def test_without_a_folder_it_says_so(self):
        served = self.serve()
        served.evidence = {"schema": 1, "folder": None, "files": []}
        self.show(served)
        self.browser.wait_for("return document.getElementById('evidence-about').textContent.includes('AIRAMP_EVIDENCE_DIR')")


class Rhythm(Page):
    def test_a_change_of_pace_says_since_when_by_how_much_and_whose_doing_it_is(self):
        self.show(self.serve())
        told = self.browser.run("return document.querySelector('.paces li').textContent")
        self.assertIn("▲ Slower since step 981: 431 ms became 512 ms (+19%). compute grew on rank 3, communication grew on rank 0 to 2, communicator 9f1c03a7", told)
        rows = self.browser.run("return [...document.querySelectorAll('[aria-label=\"Rhythm of the ranks\"] tbody tr')].map((row) => row.textContent)")
        self.assertEqual(len(rows), 4)
        self.assertIn("49.0 µs, without 158 µs", rows[0])

    def test_a_job_without_a_rhythm_says_so(self):
        served = self.serve()
        served.change(lambda node: [job.update(rhythm={"state": "off", "step": None, "step_s": None, "step_calls": None}, pace_changes=[]) for job in node["jobs"]])
        served.change(lambda node: [rank.update(rhythm={"state": "off", "step": None, "step_s": None, "step_calls": None}) for job in node["jobs"] for rank in job["ranks"]])
        self.show(served)
        self.assertIn("AIRAMP_PATTERN", self.browser.run("return document.querySelector('#job').innerText"))
        self.assertFalse(self.browser.run("return document.querySelector('[aria-label=\"Rhythm of the ranks\"]').checkVisibility()"))


class Events(Page):
    def test_the_list_is_filtered_by_severity_text_and_job(self):
        self.show(self.serve())
        rows = "return [...document.querySelectorAll('#event-rows tr')].map((row) => row.textContent)"
        everything = self.browser.run(rows)
        choose = "const it = document.getElementById(arguments[0]); it[arguments[1]] = arguments[2]; it.dispatchEvent(new Event('input'))"
        self.browser.run(choose, "event-severity", "value", "error")
        errors = self.browser.run(rows)
        self.assertTrue(0 < len(errors) < len(everything) and all("error" in row for row in errors))
        self.browser.run(choose, "event-severity", "value", "info")
        self.browser.run(choose, "event-text", "value", "COMMUNICATOR MADE")
        self.assertEqual(len(self.browser.run(rows)), 1)
        self.browser.run(choose, "event-text", "value", "")
        self.browser.run(choose, "event-job", "checked", True)
        self.assertTrue(all("4711" in row for row in self.browser.run(rows)))
        self.assertRegex(self.browser.run("return document.getElementById('event-count').textContent"), r"^\d+ of \d+$")

    def test_a_daemon_that_began_anew_is_heard_and_what_it_tells_again_is_shown_once(self):
        served = self.serve()
        event = served.node["events"][0]
        served.change(lambda node: node.update(events=[{**event, "seq": 1001 + number, "text": "told before"} for number in range(500)]))
        self.show(served)
        served.change(lambda node: node.update(uptime_s=1.0, events=[{**event, "seq": 1, "text": "told anew"}]))
        self.browser.wait_for("return [...document.querySelectorAll('#event-rows tr')].some((row) => row.textContent.includes('told anew'))", what="the new event")
        self.assertEqual(self.browser.run("return document.getElementById('event-count').textContent"), "1 of 1")


if __name__ == "__main__":
    absent = webdriver.missing()
    if absent:
        sys.exit(f"{absent} is not installed")
    unittest.main()
