"""The look of a page: a column of text, tables that scroll by themselves, figures side by side where there is room."""

from __future__ import annotations

CSS = """
:root {
  color-scheme: light dark;
  --text: #1c2733; --quiet: #55636f; --page: #ffffff; --raised: #f4f6f8; --line: #d5dbe1;
  --accent: #0b5c8c; --best: #e3f0f8; --warn: #8a4b00; --warned: #fdf3e3; --shade: #9aa7b399;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e9ee; --quiet: #a3afba; --page: #14191f; --raised: #1d242c; --line: #36414c;
    --accent: #7cc0ea; --best: #17344a; --warn: #f0b765; --warned: #35290f; --shade: #00000099;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  overflow-wrap: break-word;
}
main, header, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: clamp(1.6rem, 4vw + .6rem, 2.3rem); line-height: 1.2; margin: 0 0 .4rem; text-wrap: balance; }
h2 {
  font-size: 1.35rem; line-height: 1.3; margin: 2.8rem 0 .8rem; padding-top: .9rem; border-top: 1px solid var(--line);
}
h3 { font-size: 1.08rem; margin: 1.8rem 0 .5rem; }
p, ul, dl { margin: 0 0 1rem; max-width: 44rem; }
.subtitle { color: var(--quiet); font-size: 1.08rem; }
a { color: var(--accent); }
code, pre { font-family: ui-monospace, "SFMono-Regular", Consolas, "Liberation Mono", monospace; font-size: .92em; }
pre { background: var(--raised); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; }
nav { background: var(--raised); border-radius: .5rem; padding: .9rem 1.2rem; margin: 1.6rem 0 0; }
nav b { display: block; margin-bottom: .3rem; font-size: .95rem; }
nav ol { margin: 0; padding-left: 1.4rem; columns: 17rem; column-gap: 2rem; }
nav li { break-inside: avoid; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.4rem; }
dl.facts dt { color: var(--quiet); }
dl.facts dd { margin: 0; }
.note {
  border-left: 4px solid var(--accent); background: var(--raised); padding: .7rem 1rem; border-radius: 0 .4rem .4rem 0;
}
.note.warning { border-color: var(--warn); background: var(--warned); }
.note b { display: block; }
.table {
  overflow-x: auto; margin: 0 0 1.4rem;
  /* A shade at the edge behind which more columns lie. */
  background:
    linear-gradient(to right, var(--page) 40%, transparent) left / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--page) 40%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / .8rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / .8rem 100% no-repeat scroll;
}
.table:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; }
.caption { color: var(--quiet); margin-bottom: .4rem; }
th, td { padding: .38rem .9rem .38rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { border-bottom: 2px solid var(--line); vertical-align: bottom; white-space: nowrap; }
th.number { white-space: normal; }
th:first-child, td:first-child { padding-left: .5rem; }
td:first-child:not(.number) { min-width: 8rem; }
th.number, td.number { text-align: right; }
td.number { white-space: nowrap; }
tr.best td { background: var(--best); font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 1.6rem; align-items: flex-start; margin: 0 0 1.4rem; }
figure { margin: 0; min-width: 0; max-width: 100%; }
figure img {
  display: block; max-width: 100%; height: auto; background: #fff; border-radius: .4rem;
}
figcaption { color: var(--quiet); font-size: .93rem; margin-top: .4rem; }
footer { color: var(--quiet); font-size: .88rem; margin-top: 3rem; padding-bottom: 2.5rem; }
footer p { border-top: 1px solid var(--line); padding-top: .9rem; max-width: none; }
@media (prefers-color-scheme: dark) { figure img { padding: .4rem; } }
@media (max-width: 34rem) {
  main, header, footer { padding-left: 1rem; padding-right: 1rem; }
  header { padding-top: 1.5rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; }
  dl.facts dd { margin-bottom: .6rem; }
}
@media print {
  :root { --page: #fff; --text: #000; --quiet: #333; --raised: #f4f6f8; --line: #bbb; --accent: #024; }
  nav { display: none; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .table { overflow: visible; }
}
"""
