"""KNOWS: published facts with their source and date."""
