"""A static site about a lake: pages that need no server, no network and no script.

``facts`` reads the lake; ``pages`` says which pages its facts make; ``build`` writes their HTML; ``folder``
keeps the output folder. All others are pure: ``attention`` says what needs a look, ``lineage`` what is made from what,
``picture``, ``chart``, ``totals``, ``tree`` and ``table_page`` what pages show, ``paths`` where these are.
"""
