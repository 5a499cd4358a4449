"""A static site about a lake: pages that need no server, no network and no script.

``facts`` reads the lake; ``pages`` says which pages its facts make; ``build`` writes their HTML; ``folder``
keeps the output folder. What lies between (``totals``, ``chart``, ``tree``, ``pages``) is pure.
"""
