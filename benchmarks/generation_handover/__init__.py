"""What readers saw while a generation took over from another one."""
