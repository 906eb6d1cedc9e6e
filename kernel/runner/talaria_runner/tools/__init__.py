"""Tools: functions that a cell calls and that run outside of its interpreter."""
