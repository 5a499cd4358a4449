// What the theme leaves out for people who use a keyboard or a screen reader.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    table.tabIndex = 0;
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", "A table that may scroll sideways");
  }
});
