"""What a record file tells of a tuning run, as one HTML page that needs no network.

In: `Records`. Out: text of HTML with its charts inside.
"""
