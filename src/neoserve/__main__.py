"""`python -m neoserve`."""

import sys

from .faces.cli import main

sys.exit(main())
