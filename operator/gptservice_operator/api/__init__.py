"""The API that users see: object models, conditions, kinds, and the generator of the CRDs."""
