//! The literal text filter (`query.md` 3.5): no index, no pattern, every character is itself.

use super::case_fold::fold;
use super::text::is_query_space;
use crate::error::{Code, Error, Result};
use memchr::memmem::Finder;

/// A text that is looked for: in any case, with any white space where it has some.
///
/// ```
/// use dsh_session_core::query::TextClause;
/// let clause = TextClause::new("north  gate")?;
/// assert!(clause.matches("The NORTH\ngate is shut"));
/// assert!(!clause.matches("the northgate"));
/// assert_eq!(TextClause::new(" ").unwrap_err().code().name(), "SESSION_QUERY_INVALID_FILTER");
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextClause {
    /// Boxed: it is large beside the other clauses.
    finder: Box<Finder<'static>>,
}

impl TextClause {
    /// A clause for a text of any length.
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_FILTER` for a text of nothing but white space.
    pub fn new(text: &str) -> Result<TextClause> {
        let text = text.trim_matches(is_query_space);
        if text.is_empty() {
            return Err(Error::new(Code::QueryInvalidFilter, "the `text` of a text clause is blank"));
        }
        Ok(TextClause { finder: Box::new(Finder::new(&folded(text)).into_owned()) })
    }

    /// Whether a document holds the text.
    #[must_use]
    pub fn matches(&self, document: &str) -> bool {
        self.finder.find(folded(document).as_bytes()).is_some()
    }
}

/// Each run of white space as one space, each character folded. A match of two such texts is a match of characters: UTF-8 never finds
/// one in the middle of another.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut is_after_space = false;
    for character in text.chars() {
        let is_space = is_query_space(character);
        if !is_space {
            folded.push(fold(character));
        } else if !is_after_space {
            folded.push(' ');
        }
        is_after_space = is_space;
    }
    folded
}
