"""Rules that mend and clean translations, on strings and frames; no files and no models."""
