//! The macros that describe XDR types and the procedures of a program.

/// Describes XDR types; see the [module](mod@crate::xdr).
///
/// * `pub struct Name<'a> { field: Type, … }`: the fields in wire order. A type is `Option` of a
///   [`Scalar`](crate::xdr::Scalar), or another [`Xdr`](crate::xdr::Xdr) type. Fields become
///   public.
/// * `pub fixed struct Name { … }`: the same, of fields that are all [`Fixed`](crate::xdr::Fixed):
///   it is read at once.
/// * `pub scalar struct Name { … }`: the same, of plain values without `Option`; it is a
///   [`Scalar`](crate::xdr::Scalar) itself, read wholly or not at all.
/// * `pub enum Name { VALUE = 1, "value"; … }`: a number with names. Others are kept as they are.
/// * `pub union Name<'a> { 0 => Void, 1 => Arm(body: Type), _ => Other }`: a discriminated union.
///   Without the last line, another discriminant is malformed; with it, it is followed by nothing.
#[macro_export]
macro_rules! xdr {
    () => {};

    (
        $(#[$meta:meta])*
        pub fixed struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::xdr::Fixed for $name {
            const LEN: usize = 0 $(+ <$type as $crate::xdr::Fixed>::LEN)*;

            #[inline]
            fn from_bytes(mut bytes: &[u8]) -> Self {
                Self {
                    $($field: {
                        let len = <$type as $crate::xdr::Fixed>::LEN;
                        $crate::xdr::Fixed::from_bytes(bytes.split_off(..len).unwrap_or_default())
                    },)*
                }
            }
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name {
            const SIZE: Option<usize> = Some(<Self as $crate::xdr::Fixed>::LEN);

            #[inline]
            fn decode(cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                const LEN: usize = <$name as $crate::xdr::Fixed>::LEN;
                if let Some(bytes) = cursor.whole::<LEN>() {
                    return $crate::xdr::Fixed::from_bytes(bytes);
                }
                Self { $($field: $crate::xdr::Xdr::decode(cursor),)* }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Xdr::encode(&self.$field, out);)*
            }

            fn agrees(&self, whole: &Self) -> bool {
                true $(&& $crate::xdr::Xdr::agrees(&self.$field, &whole.$field))*
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub scalar struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::xdr::Fixed for $name {
            const LEN: usize = 0 $(+ <$type as $crate::xdr::Fixed>::LEN)*;

            #[inline]
            fn from_bytes(mut bytes: &[u8]) -> Self {
                Self {
                    $($field: {
                        let len = <$type as $crate::xdr::Fixed>::LEN;
                        $crate::xdr::Fixed::from_bytes(bytes.split_off(..len).unwrap_or_default())
                    },)*
                }
            }
        }

        impl<'a> $crate::xdr::Scalar<'a> for $name {
            const SIZE: Option<usize> = Some(<Self as $crate::xdr::Fixed>::LEN);

            #[inline]
            fn read(cursor: &mut $crate::xdr::Cursor<'a>) -> Option<Self> {
                const LEN: usize = <$name as $crate::xdr::Fixed>::LEN;
                let bytes = cursor.array::<LEN>()?;
                Some($crate::xdr::Fixed::from_bytes(&bytes))
            }

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Scalar::write(&self.$field, out);)*
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$lt:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name $(<$lt>)? {
            const SIZE: Option<usize> =
                $crate::xdr::sum_of_sizes(&[$(<$type as $crate::xdr::Xdr<'a>>::SIZE),*]);

            #[inline]
            fn decode(cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                Self { $($field: $crate::xdr::Xdr::decode(cursor),)* }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Xdr::encode(&self.$field, out);)*
            }

            fn agrees(&self, whole: &Self) -> bool {
                true $(&& $crate::xdr::Xdr::agrees(&self.$field, &whole.$field))*
            }

            #[inline]
            fn skip(cursor: &mut $crate::xdr::Cursor<'a>) {
                match Self::SIZE {
                    Some(size) => drop(cursor.view(size)),
                    None => { $(<$type as $crate::xdr::Xdr<'a>>::skip(cursor);)* }
                }
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($variant:ident = $value:literal, $text:literal;)* }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(
            /// The number on the wire.
            pub u32
        );

        impl $name {
            $(#[doc = concat!("`", $text, "`")] pub const $variant: Self = Self($value);)*

            /// Every value that has a name.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, if it has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl $crate::xdr::Fixed for $name {
            const LEN: usize = 4;

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                Self($crate::xdr::Fixed::from_bytes(bytes))
            }
        }

        impl<'a> $crate::xdr::Scalar<'a> for $name {
            const SIZE: Option<usize> = Some(4);

            #[inline]
            fn read(cursor: &mut $crate::xdr::Cursor<'a>) -> Option<Self> {
                <u32 as $crate::xdr::Scalar<'a>>::read(cursor).map(Self)
            }

            fn write(&self, out: &mut Vec<u8>) {
                $crate::xdr::Scalar::write(&self.0, out);
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub union $name:ident $(<$lt:lifetime>)? {
            $($(#[$arm_meta:meta])* $value:literal => $arm:ident $(($body:ident: $type:ty))?),*
            $(, _ => $other:ident)? $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum $name $(<$lt>)? {
            /// The discriminant was not seen, or is none of these.
            #[default]
            Unread,
            $($(#[$arm_meta])* #[doc = concat!("Discriminant ", $value, ".")] $arm $(($type))?,)*
            $(/// Another discriminant, followed by nothing.
            $other(u32),)?
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// The number on the wire, if it was seen.
            pub fn discriminant(&self) -> Option<u32> {
                match self {
                    Self::Unread => None,
                    $($crate::xdr!(@ignore $arm $($body)?) => Some($value),)*
                    $(Self::$other(number) => Some(*number),)?
                }
            }
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name $(<$lt>)? {
            const SIZE: Option<usize> = None;

            #[inline]
            fn decode(cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                let Some(number) = cursor.u32() else { return Self::Unread };
                match number {
                    $($value => Self::$arm $((<$type as $crate::xdr::Xdr<'a>>::decode(cursor)))?,)*
                    $(number => Self::$other(number),)?
                    #[allow(unreachable_patterns, reason = "a union may have a default arm")]
                    _ => {
                        cursor.reject();
                        Self::Unread
                    }
                }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $crate::xdr::Xdr::encode(&self.discriminant(), out);
                match self {
                    $(Self::$arm $(($body))? => { $($crate::xdr::Xdr::encode($body, out);)? })*
                    _ => {}
                }
            }

            fn agrees(&self, whole: &Self) -> bool {
                match self {
                    Self::Unread => true,
                    $(Self::$arm $(($body))? => {
                        $(let mine = $body;)?
                        match whole {
                            Self::$arm $(($body))? => true $(&& $crate::xdr::Xdr::agrees(mine, $body))?,
                            _ => false,
                        }
                    })*
                    #[allow(unreachable_patterns, reason = "a union may have a default arm")]
                    _ => self == whole,
                }
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (@ignore $arm:ident) => { Self::$arm };
    (@ignore $arm:ident $body:ident) => { Self::$arm(_) };
}

/// Describes the procedures of a program: `number Name "NAME": Args => Results;`.
///
/// Gives `Procedure` with numbers and names, and `Call` and `Reply`, each an enum of all of them.
#[macro_export]
macro_rules! procedures {
    ($($number:literal $name:ident $text:literal: $args:ty => $results:ty;)*) => {
        $crate::numbered! {
            /// A procedure of the program.
            pub enum Procedure { $($number $name $text;)* }
        }
        $crate::bodies! {
            /// The arguments of a call.
            pub enum Call<'a> { $($name $text: $args;)* }
        }
        $crate::bodies! {
            /// The results in a reply that was accepted.
            pub enum Reply<'a> { $($name $text: $results;)* }
        }
    };
}

/// Things with numbers and names: `number Name "NAME";`.
#[macro_export]
#[doc(hidden)]
macro_rules! numbered {
    ($(#[$meta:meta])* pub enum $of:ident { $($number:literal $name:ident $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $of { $(#[doc = concat!("`", $text, "`")] $name = $number,)* }

        impl $of {
            /// Every one, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The one of a number.
            #[inline]
            pub fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its number in a call.
            pub fn number(self) -> u32 {
                self as u32
            }

            /// Its name in the RFC, without the prefix.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

/// What follows the headers of the calls, or of the replies, of a program's procedures.
#[macro_export]
#[doc(hidden)]
macro_rules! bodies {
    ($(#[$meta:meta])* pub enum $of:ident<'a> { $($name:ident $text:literal: $body:ty;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "it lives on the stack, and boxes would be \
        allocations")]
        pub enum $of<'a> { $(#[doc = concat!("Of `", $text, "`.")] $name($body),)* }

        impl<'a> $of<'a> {
            /// Reads what follows the header.
            #[inline]
            pub fn decode(procedure: Procedure, cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                match procedure {
                    $(Procedure::$name => Self::$name(<$body as $crate::xdr::Xdr<'a>>::decode(cursor)),)*
                }
            }

            /// Appends it.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(Self::$name(body) => $crate::xdr::Xdr::encode(body, out),)* }
            }

            /// Whether all that is read here is the same in `whole`.
            pub fn agrees(&self, whole: &Self) -> bool {
                match (self, whole) {
                    $((Self::$name(body), Self::$name(whole)) => $crate::xdr::Xdr::agrees(body, whole),)*
                    _ => false,
                }
            }

            /// Of which procedure it is.
            pub fn procedure(&self) -> Procedure {
                match self { $(Self::$name(_) => Procedure::$name,)* }
            }
        }
    };
}
