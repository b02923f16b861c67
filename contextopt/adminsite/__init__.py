"""The admin site that every app registers its tables with, and its menu."""
