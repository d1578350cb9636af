"""Small and awkward operators of real networks, called from Python as users call them."""
