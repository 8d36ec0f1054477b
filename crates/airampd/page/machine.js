// Devices and interfaces as strips of small cards. Counters of bytes are shown as rates between two looks.

const earlier = new Map();

/** The daemon reads hardware less often than it looks: readings closer than this are one. */
const SAME_READING_MS = 500;

/** Bytes per second since the reading before; null at the first, and after a restart. */
function counterRate(key, value, atMs) {
  const last = earlier.get(key);
  if (last && Math.abs(atMs - last.atMs) < SAME_READING_MS) return last.rate;
  const fresh = known(value) && last && known(last.value) && value >= last.value && atMs > last.atMs;
  const current = fresh ? ((value - last.value) * 1000) / (atMs - last.atMs) : null;
  earlier.set(key, { value, atMs, rate: current });
  return current;
}

const readAt = (node, age) => node.time_unix_ms - (age ?? 0) * 1000;

function makeCard() {
  return make("li", {}, make("p", { class: "name" }), make("p", { class: "quiet" }), make("dl"));
}

/** `facts`: [label, format, value, unit, portion of a bar or null, alarming]. Those that are not known are left out. */
function showCard(item, name, about, title, facts) {
  show(item.children[0], name);
  show(item.children[1], about);
  attribute(item, "title", title);
  each(item.children[2], facts.filter(([, , value]) => value !== null && value !== undefined), ([label]) => label, ([label]) => make("div", { "data-fact": label }, make("dt", {}, label), make("dd"), bar()),
    (line, [label, format, value, unit, portion, alarming]) => {
      const [, text, strip] = line.children;
      attribute(line, "class", alarming ? "alarming" : "");
      if (typeof value === "number") quantity(text, format, value, unit);
      else show(text, format(value));
      visible(strip, known(portion));
      if (known(portion)) strip.fill_(portion);
    });
}

const hertz = (value) => `${digits(value / 1e9)} GHz`;
const ofTotal = (used, total) => (known(used) && total > 0 ? used / total : null);

function showDevices(node) {
  const devices = node.devices ?? [];
  visible(byId("devices-none"), devices.length === 0);
  if (devices.length === 0 && node.machine_notes?.length) show(byId("devices-none"), node.machine_notes.map(asSentence).join(" "));
  each(byId("device-strip"), devices, (device) => `${device.maker} ${device.index}`, makeCard, (item, device) => {
    attribute(item, "class", device.lost ? "lost" : "");
    const users = node.jobs.flatMap((job) => (job.ranks ?? []).filter((rank) => rank.device_uuid && rank.device_uuid === device.uuid).map((rank) => rank.rank)).filter(known);
    const about = device.lost ? "■ lost: the driver no longer reaches it" : users.length ? `rank ${rankList(users)}` : "no rank of a job";
    showCard(item, `${device.index} ${device.name}`, about, [device.uuid, device.pci].filter(Boolean).join(" "), deviceFacts(device, readAt(node, node.devices_age_s)));
  });
}

function deviceFacts(device, atMs) {
  const key = device.uuid || device.index;
  return [
    ["Busy", share, device.utilisation, "", device.utilisation],
    ["Memory", bytes, device.memory_used_bytes, "bytes", ofTotal(device.memory_used_bytes, device.memory_total_bytes)],
    ["Power", (watts) => `${digits(watts)} W`, device.power_w, "W", ofTotal(device.power_w, device.power_limit_w)],
    ["Temperature", (degrees) => `${digits(degrees)} °C`, device.temperature_c, "°C", null],
    ["SM clock", hertz, device.sm_clock_hz, "Hz", null],
    ["Throttled", (reasons) => `▲ ${reasons.map(words).join(", ")}`, device.throttle?.length ? device.throttle : null, "", null, true],
    ["NVLink out", rate, counterRate(`${key} nvlink`, device.nvlink_sent_bytes, atMs), "bytes/s", null],
    ["ECC, uncorrected", (errors) => `■ ${plain(errors)}`, device.ecc_uncorrected > 0 ? device.ecc_uncorrected : null, "", null, true],
    ["Xid", (xid) => `■ ${xid}`, device.last_xid, "", null, true],
  ];
}

function showNics(node) {
  const atMs = readAt(node, node.nics_age_s);
  const nics = [...(node.nics ?? []).map((nic) => nicCard(nic, atMs)), ...(node.rdma_ports ?? []).map((port) => rdmaCard(port, atMs))];
  const cards = known(node.tcp?.sent_segments) ? [...nics, tcpCard(node.tcp)] : nics;
  visible(byId("nics-none"), cards.length === 0);
  each(byId("nic-strip"), cards, ({ name }) => name, makeCard, (item, { name, about, facts }) => showCard(item, name, about, name, facts));
}

function nicCard(nic, atMs) {
  const [sent, received] = ["sent", "received"].map((way) => counterRate(`${nic.name} ${way}`, nic[`${way}_bytes`], atMs));
  const limit = known(nic.speed_bits_per_s) ? nic.speed_bits_per_s / 8 : null;
  return { name: nic.name, about: `${nic.state}${limit ? `, ${rate(limit)}` : ""}`, facts: [
    ["Sending", rate, sent, "bytes/s", ofTotal(sent, limit)],
    ["Receiving", rate, received, "bytes/s", ofTotal(received, limit)],
    ["Sent", bytes, nic.sent_bytes, "bytes", null],
    ["Received", bytes, nic.received_bytes, "bytes", null],
    ["Errors", plain, (nic.send_errors ?? 0) + (nic.receive_errors ?? 0), "", null, nic.send_errors > 0 || nic.receive_errors > 0],
    ["Drops", plain, (nic.send_drops ?? 0) + (nic.receive_drops ?? 0), "", null],
  ] };
}

function rdmaCard(port, atMs) {
  const name = `${port.device}/${port.port}`;
  const [sent, received] = ["sent", "received"].map((way) => counterRate(`${name} ${way}`, port[`${way}_bytes`], atMs));
  const limit = known(port.rate_bits_per_s) ? port.rate_bits_per_s / 8 : null;
  const counters = (port.counters ?? []).filter(({ value }) => value > 0).slice(0, 6).map(({ name: counter, value }) => [words(counter), plain, value, "", null]);
  return { name, about: `RDMA, ${port.state}${limit ? `, ${rate(limit)}` : ""}`, facts: [
    ["Sending", rate, sent, "bytes/s", ofTotal(sent, limit)],
    ["Receiving", rate, received, "bytes/s", ofTotal(received, limit)],
    ["Sent", bytes, port.sent_bytes, "bytes", null],
    ["Received", bytes, port.received_bytes, "bytes", null],
    ...counters,
  ] };
}

function tcpCard(tcp) {
  return { name: "TCP", about: "of the whole node", facts: [
    ["Segments sent", count, tcp.sent_segments, "", null],
    ["Retransmitted", plain, tcp.retransmitted_segments, "segments", null],
    ["Timeouts", plain, tcp.timeouts, "", null],
  ] };
}
