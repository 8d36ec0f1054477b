// Puts it together: whenever the feed has news, every section is brought up to date.

const LINKS = { loading: "Loading", live: "Live", paused: "Paused", stale: "No answer", token: "Token needed" };

function showAll() {
  const node = feed.node;
  attribute(document.body, "data-link", feed.link);
  show(byId("link-text"), linkText());
  showStale();
  visible(byId("token-form"), feed.link === "token");
  visible(byId("loading"), !node && feed.link === "loading");
  visible(byId("content"), Boolean(node));
  if (!node) return;
  document.title = `${node.findings?.length ? `(${node.findings.length}) ` : ""}${node.node} · AIRamp`;
  show(byId("node"), node.node);
  attribute(document.body, "data-time", node.time_unix_ms);
  show(byId("about"), `airampd ${node.version}, up for ${span(node.uptime_s)}.`);
  for (const section of [showFindings, showOverview, showJobs, showDevices, showNics, showEvents, showEvidence]) section(node);
}

function linkText() {
  const at = feed.node ? ` ${clock(feed.node.time_unix_ms)}` : "";
  return `${LINKS[feed.link]}${at}`;
}

function showStale() {
  const stale = feed.link === "stale";
  visible(byId("stale"), stale);
  if (!stale) return;
  const since = feed.receivedMs ? ` since ${moment(feed.receivedMs)}. What you see is from then` : "";
  show(byId("stale"), `airampd does not answer${since}. The page keeps asking.`);
}

function startControls() {
  const button = byId("pause");
  button.addEventListener("click", () => {
    pause(!feed.paused);
    attribute(button, "aria-pressed", feed.paused);
  });
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(byId("token").value.trim());
  });
}

startAppearance(showAll);
startControls();
startEvents();
startFeed(showAll);
