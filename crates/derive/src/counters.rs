//! Addition of counters, field by field, and their twin of atomics: `#[derive(Counters)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, Result};

pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        let text = "Counters can be derived for a struct only: its fields are added one by one";
        return Err(Error::new_spanned(&input.ident, text));
    };
    let name = &input.ident;
    let (parameters, arguments, conditions) = input.generics.split_for_impl();
    let mut additions = TokenStream::new();
    for (member, field) in data.fields.members().zip(&data.fields) {
        additions.extend(if is_maximum(&field.attrs)? {
            quote!(self.#member = ::core::cmp::Ord::max(self.#member, other.#member);)
        } else {
            quote!(::core::ops::AddAssign::add_assign(&mut self.#member, other.#member);)
        });
    }
    let shared = match shared_name(&input.attrs)? {
        Some(shared) => twin(input, &shared, &data.fields),
        None => TokenStream::new(),
    };
    Ok(quote! {
        #shared

        impl #parameters ::core::ops::AddAssign for #name #arguments #conditions {
            fn add_assign(&mut self, other: Self) {
                #additions
            }
        }
    })
}

/// A structure with an atomic for each field, and its numbers at one moment.
fn twin(input: &DeriveInput, shared: &Ident, fields: &Fields) -> TokenStream {
    let DeriveInput { vis, ident: name, .. } = input;
    let members: Vec<_> = fields.members().collect();
    let doc = format!("Counts while they are made: any thread may read them. See [`{name}`].");
    quote! {
        #[doc = #doc]
        #[derive(Debug, Default)]
        #vis struct #shared {
            #(pub(crate) #members: ::std::sync::atomic::AtomicU64,)*
        }

        impl #shared {
            /// The numbers now.
            #vis fn statistics(&self) -> #name {
                #name {
                    #(#members: self.#members.load(::std::sync::atomic::Ordering::Relaxed),)*
                }
            }
        }
    }
}

fn shared_name(attributes: &[Attribute]) -> Result<Option<Ident>> {
    let mut shared = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("counters")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("shared") {
                shared = Some(meta.value()?.parse()?);
                Ok(())
            } else {
                Err(meta
                    .error("unknown option of `counters` for a struct; the only one is `shared`"))
            }
        })?;
    }
    Ok(shared)
}

fn is_maximum(attributes: &[Attribute]) -> Result<bool> {
    let mut is_maximum = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("counters")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("max") {
                is_maximum = true;
                Ok(())
            } else {
                Err(meta.error("unknown option of `counters`; the only one is `max`"))
            }
        })?;
    }
    Ok(is_maximum)
}
