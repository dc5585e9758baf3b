//! Events as they are held: shared row text and a parsed envelope.
