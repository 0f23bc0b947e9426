"""The command line ``tutelage``: train, inspect, report and commentary.

It reads data sets, trains students beside one another in worker processes, and writes reports.
It uses the library ``tutelage`` and knows nothing of the papers. Start with ``cli.py``.
"""
