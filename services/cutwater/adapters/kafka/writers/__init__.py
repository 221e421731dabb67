"""Writers in transactions: under an id that fences its older owner, and copies with their headers."""
