"""A static site about a lake: pages that need no server, no network and no script.

``gather`` reads the lake into facts; ``pages`` says which pages those make; ``render`` writes their HTML; ``folder``
keeps the output folder. What lies between (``tally``, ``chart``, ``tree``, ``changes``, ``names``) is pure.
"""
