"""Starts Autobahn's `wstest` (on Python 2.7) from the folder of packages in the first argument."""
import site
import sys

site.addsitedir(sys.argv.pop(1))
sys.argv[0] = "wstest"

from autobahntestsuite.wstest import run

sys.exit(run())
