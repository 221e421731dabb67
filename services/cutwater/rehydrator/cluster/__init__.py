"""Other rehydrators: peers and regions."""
