"""Django's British formats with a 24-hour clock, as on the pages. Settings cannot change them."""

DATETIME_FORMAT = "j M Y, H:i"
SHORT_DATETIME_FORMAT = "d/m/Y H:i"
TIME_FORMAT = "H:i"
