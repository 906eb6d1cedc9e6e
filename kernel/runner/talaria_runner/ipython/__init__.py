"""get_ipython(): its shell, magics and the parts of IPython that libraries import."""
