"""Show the tuning runs of a record file as one HTML page that needs no network.

In: `Records`. Out: text of HTML with its charts inside.
"""
