"use strict";
/* Filter by text and state, keys, and plots where a test opens. Without it the page is whole, but for the plots. */
(() => {
  document.documentElement.classList.add("js");
  const main = document.getElementById("tests");
  const tests = [...main.querySelectorAll(":scope > .test")];

  /* On a page of many tests what opens stands in <noscript>: without scripts it is there, with them it is text that
     costs next to nothing until it is made elements here. It was escaped when the page was written. */
  const fill = (test) => {
    const kept = test.querySelector(":scope > noscript");
    if (kept) { kept.insertAdjacentHTML("afterend", kept.textContent); kept.remove(); }
  };
  const opened = (details) => { fill(details); onnxperfPlots.watch(details); };
  document.addEventListener("toggle", (event) => { if (event.target.open) opened(event.target); }, true);
  main.querySelectorAll(":scope > details[open]").forEach(opened);


  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches("details.test")) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();

  const controls = document.getElementById("controls");
  if (!controls) return;
  controls.hidden = false;
  const input = document.getElementById("filter"), shown = document.getElementById("shown");
  const buttons = [...controls.querySelectorAll("button")];
  const line = (test) => (test.matches("details") ? test.firstElementChild : test);
  let texts = null;

  const apply = () => {
    texts ??= tests.map((test) => `${line(test).textContent} ${test.dataset.find}`.toLowerCase());
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = buttons.filter((each) => each.ariaPressed === "true").map((each) => each.dataset.state);
    let count = 0;
    tests.forEach((test, index) => {
      const isShown = (!states.length || states.includes(test.dataset.state)) && words.every((word) => texts[index].includes(word));
      test.hidden = !isShown;
      count += isShown;
    });
    shown.textContent = `${count} of ${tests.length}`;
  };

  input.addEventListener("input", apply);
  for (const button of buttons) button.addEventListener("click", () => {
    button.ariaPressed = button.ariaPressed === "true" ? "false" : "true";
    apply();
  });

  const step = (from, by) => {
    const open = tests.filter((test) => !test.hidden && test.matches("details"));
    const at = open.indexOf(from.closest("details.test"));
    const next = open[at === -1 ? (by > 0 ? 0 : -1) : at + by];
    if (next) next.firstElementChild.focus();
    else if (by < 0) input.focus();
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isLine = event.target.matches("details.test > summary"), isInput = event.target === input;
    if (event.key === "/" && !isInput) { event.preventDefault(); input.focus(); input.select(); }
    else if (event.key === "Escape" && isInput) { input.value = ""; apply(); }
    else if (event.key === "ArrowDown" && (isLine || isInput)) { event.preventDefault(); step(event.target, 1); }
    else if (event.key === "ArrowUp" && isLine) { event.preventDefault(); step(event.target, -1); }
  });
})();
