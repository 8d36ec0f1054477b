// The files that airampd keeps about anomalies: which there are, and the way to them. A link alone cannot carry the
// token; where there is one, the file is fetched with it.

const EVIDENCE = "/api/v1/evidence";
/** Files come with findings, so seldom; the list is asked for every so often. */
const EVIDENCE_MS = 5000;

let evidenceAsked = 0;

function showEvidence() {
  if (Date.now() - evidenceAsked < EVIDENCE_MS) return;
  evidenceAsked = Date.now();
  ask(EVIDENCE).then(listEvidence, () => {});
}

function listEvidence({ folder, files = [] }) {
  const newest = [...files].reverse();
  show(byId("evidence-about"), folder
    ? `${files.length === 0 ? "No file yet. Each finding leaves one" : `${plain(files.length)} ${files.length === 1 ? "file" : "files"}`} in ${folder}: the calls of each rank before and after it, as lines of JSON.`
    : "No evidence is kept: AIRAMP_EVIDENCE_DIR names no folder that can be written.");
  each(byId("evidence-list"), newest, (file) => file.name, makeEvidence, showEvidenceFile);
}

function makeEvidence(file) {
  const link = make("a", { href: `${EVIDENCE}/${encodeURIComponent(file.name)}`, download: file.name });
  link.addEventListener("click", (event) => fetchEvidence(event, file.name));
  return make("li", {}, link, make("span", { class: "quiet" }));
}

function showEvidenceFile(item, file) {
  const [link, about] = item.children;
  show(link, file.name);
  show(about, ` ${moment(file.time_unix_ms)}, ${bytes(file.bytes)}`);
}

async function fetchEvidence(event, name) {
  const token = feed.token ?? storedToken();
  if (!token) return;
  event.preventDefault();
  const answer = await fetch(`${EVIDENCE}/${encodeURIComponent(name)}`, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  if (!answer.ok) return;
  const address = URL.createObjectURL(await answer.blob());
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
