// Run inside the page by the tests: what a reader who cannot see it, or sees it badly, needs. Returns a list of
// complaints, each a sentence; an empty list is a pass.

const least = arguments[0];
const complaints = [];
const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest("[aria-hidden=true]");
const name = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${element.getAttribute("class") ?? ""} "${element.textContent.trim().slice(0, 40)}"`;

function headings() {
  const all = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown);
  const levels = all.map((heading) => Number(heading.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) complaints.push("there is not exactly one h1");
  levels.forEach((level, index) => {
    if (index > 0 && level > levels[index - 1] + 1) complaints.push(`a level is skipped before ${name(all[index])}`);
    if (!all[index].textContent.trim()) complaints.push(`an empty heading: ${name(all[index])}`);
  });
}

function landmarks() {
  for (const [selector, many] of [["main", 1], ["body > header", 1], ["body > footer", 1]]) {
    if (document.querySelectorAll(selector).length !== many) complaints.push(`not exactly ${many} ${selector}`);
  }
  for (const section of document.querySelectorAll("section, nav, [role=region], [role=tablist], [role=tabpanel], [role=search]")) {
    const by = section.getAttribute("aria-labelledby");
    const label = by ? by.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ") : section.getAttribute("aria-label");
    if (shown(section) && !label?.trim()) complaints.push(`a region without a name: ${name(section)}`);
  }
  const live = [...document.querySelectorAll("[aria-live], [role=status], [role=alert], [role=log]")];
  if (live.length !== 1 || !live[0].closest("#findings")) complaints.push("something else than the findings speaks by itself");
}

function identifiers() {
  const seen = new Set();
  for (const { id } of document.querySelectorAll("[id]")) {
    if (seen.has(id)) complaints.push(`the id ${id} is there twice`);
    seen.add(id);
  }
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-controls], label[for]")) {
    for (const attribute of ["aria-labelledby", "aria-controls", "for"]) {
      for (const id of element.getAttribute(attribute)?.split(" ") ?? []) if (!seen.has(id)) complaints.push(`${name(element)} points to ${id}, which is not there`);
    }
  }
}

function tables() {
  for (const table of document.querySelectorAll("table")) {
    if (!table.querySelector("thead th[scope=col]")) complaints.push(`a table without headings: ${name(table)}`);
    const columns = table.tHead.rows[0].cells.length;
    for (const row of table.tBodies[0].rows) if (row.cells.length !== columns) complaints.push(`a row with ${row.cells.length} cells of ${columns}: ${name(row)}`);
  }
}

const parse = (colour) => { const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number); return { r, g, b, a }; };
const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1 });
const linear = (channel) => { const value = channel / 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
const luminance = ({ r, g, b }) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const contrast = (one, other) => { const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); };

function behind(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.a > 0) layers.push(colour);
    if (colour.a === 1) break;
  }
  return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
}

function contrasts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const inPlot = element.closest("svg.plot");
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
    if (!element.checkVisibility({ visibilityProperty: true }) || (element.closest("[aria-hidden=true]") && !inPlot)) continue;
    const style = getComputedStyle(element);
    const ink = parse(inPlot ? style.fill : style.color);
    const ratio = contrast(over(ink, behind(element)), behind(element));
    texts += 1;
    if (ratio < least) complaints.push(`contrast ${ratio.toFixed(2)} of ${name(element)}`);
  }
  if (texts < 20) complaints.push(`only ${texts} texts were looked at`);
  for (const line of document.querySelectorAll("svg.plot .line")) {
    const ratio = contrast(parse(getComputedStyle(line).stroke), behind(line));
    if (ratio < 3) complaints.push(`contrast ${ratio.toFixed(2)} of the line ${line.getAttribute("class")}`);
  }
}

/** Nothing may be told by hue alone: lines differ in their dashes, the scale of heat in its lightness. */
function withoutColour() {
  for (const plot of document.querySelectorAll("svg.plot")) {
    const dashes = [...plot.querySelectorAll(".line")].map((line) => getComputedStyle(line).strokeDasharray);
    if (new Set(dashes).size !== dashes.length) complaints.push(`lines that differ by colour alone: ${dashes}`);
  }
  for (const ramp of document.querySelectorAll(".ramp")) {
    const steps = [...ramp.children].map((stop) => luminance(parse(getComputedStyle(stop).backgroundColor)));
    const rising = steps.every((step, index) => index === 0 || step > steps[index - 1]);
    const falling = steps.every((step, index) => index === 0 || step < steps[index - 1]);
    if (!rising && !falling) complaints.push(`the scale of heat is not one of lightness: ${steps}`);
  }
}

function overflow() {
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) complaints.push(`the page is ${wide} wide in a window of ${innerWidth}`);
  for (const element of document.body.querySelectorAll("*")) {
    if (!shown(element) || element.closest(".scroll, .job-tabs, .skip, .unseen, svg, option, nav")) continue;
    const { left, right, width } = element.getBoundingClientRect();
    if (width > 0 && (right > innerWidth + 1 || left < -1)) complaints.push(`sticks out: ${name(element)}`);
    const cut = element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === "hidden" && getComputedStyle(element).textOverflow !== "ellipsis";
    if (cut) complaints.push(`is cut off: ${name(element)}`);
  }
}

function targets() {
  for (const control of document.querySelectorAll("button, select, input:not([type=checkbox]), .button")) {
    const { width, height } = control.getBoundingClientRect();
    if (shown(control) && (width < 24 || height < 24)) complaints.push(`too small to hit: ${name(control)}`);
  }
}

for (const check of [headings, landmarks, identifiers, tables, contrasts, withoutColour, overflow, targets]) check();
return complaints;
