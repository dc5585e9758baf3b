//! How a member of an object becomes a typed field, and what is said where it cannot.

use crate::json::{Json, Kind};
use std::borrow::Cow;

/// Why a value is not of the form that a view has: where it stands in the value looked at, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// `.message.content[3]`, from the outside in.
    pub(super) path: String,
    pub(super) rule: &'static str,
}

impl Malformed {
    pub(super) fn new(rule: &'static str) -> Malformed {
        Malformed { path: String::new(), rule }
    }

    fn inside(mut self, step: &str) -> Malformed {
        self.path.insert_str(0, step);
        self
    }
}

/// A value that a view has as a field.
pub trait Field<'a>: Sized {
    /// Reads the value of a member that is there.
    ///
    /// # Errors
    /// [`Malformed`] with the place inside the value.
    fn read(value: Json<'a>) -> Result<Self, Malformed>;

    /// What an absent member means; `None` where it must be there.
    #[must_use]
    fn absent() -> Option<Self> {
        None
    }
}

/// Reads a member of an object.
pub(super) fn member<'a, T: Field<'a>>(key: &str, value: Option<Json<'a>>) -> Result<T, Malformed> {
    let read = match value {
        Some(value) => T::read(value),
        None => T::absent().ok_or(Malformed::new("is missing")),
    };
    read.map_err(|malformed| malformed.inside(&format!(".{key}")))
}

/// A field of a simple sort: how it is read, and what is said of a value that is none.
macro_rules! simple_field {
    ($($ty:ty: $read:expr, $rule:literal;)*) => {
        $(impl<'a> Field<'a> for $ty {
            fn read(value: Json<'a>) -> Result<Self, Malformed> {
                let read: fn(&Json<'a>) -> Option<$ty> = $read;
                read(&value).ok_or(Malformed::new($rule))
            }
        })*
    };
}

simple_field! {
    u64: Json::as_count, "is not a whole number from 0 to 2^53-1";
    i64: Json::as_safe_integer, "is not a whole number within 2^53-1";
    f64: Json::as_f64, "is not a number";
    bool: Json::as_bool, "is not a boolean";
    Cow<'a, str>: Json::as_str, "is not a string";
}

impl<'a> Field<'a> for Json<'a> {
    fn read(value: Json<'a>) -> Result<Self, Malformed> {
        Ok(value)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    fn read(value: Json<'a>) -> Result<Self, Malformed> {
        T::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    fn read(value: Json<'a>) -> Result<Self, Malformed> {
        if value.kind() != Kind::Array {
            return Err(Malformed::new("is not an array"));
        }
        let element =
            |(index, value)| T::read(value).map_err(|malformed| malformed.inside(&format!("[{index}]")));
        value.elements().enumerate().map(element).collect()
    }
}

/// A field that must be there and may be `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrNull<T>(pub Option<T>);

impl<'a, T: Field<'a>> Field<'a> for OrNull<T> {
    fn read(value: Json<'a>) -> Result<Self, Malformed> {
        if value.kind() == Kind::Null {
            Ok(OrNull(None))
        } else {
            T::read(value).map(|value| OrNull(Some(value)))
        }
    }
}

/// Objects of a known form: a type with a field for each known member and the whole object behind [`json`](Json), where what is not
/// known stays. With a type in parentheses, it is the `data` of events of that type.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident $(($kind:literal))? {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $key:literal,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            #[non_exhaustive]
            pub struct $name<'a> {
                $(
                    #[doc = concat!("`", $key, "`.")]
                    $(#[$field_doc])*
                    pub $field: $ty,
                )*
                json: Json<'a>,
            }

            impl<'a> $name<'a> {
                /// The whole object, with the members that have no field here.
                #[must_use]
                pub fn json(&self) -> Json<'a> {
                    self.json
                }
            }

            impl<'a> $crate::event::views::field::Field<'a> for $name<'a> {
                fn read(json: Json<'a>) -> Result<Self, $crate::event::views::field::Malformed> {
                    use $crate::event::views::field::{Malformed, member};
                    if json.kind() != $crate::json::Kind::Object {
                        return Err(Malformed::new("is not an object"));
                    }
                    let [$($field),*] = $crate::event::facts::members(json, [$($key),*]);
                    Ok($name { $($field: member($key, $field)?,)* json })
                }
            }

            $(impl<'a> $crate::event::views::EventView<'a> for $name<'a> {
                const KIND: &'static str = $kind;
            })?
        )*
    };
}

pub(super) use objects;
