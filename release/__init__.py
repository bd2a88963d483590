"""What a release consists of, made into dist/: `make release` (docs/releasing.md)."""
