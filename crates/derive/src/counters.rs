//! Field-by-field addition of counters: `#[derive(Counters)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Result};

pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        let text = "Counters can be derived for a struct only: its fields are added one by one";
        return Err(Error::new_spanned(&input.ident, text));
    };
    let name = &input.ident;
    let (parameters, arguments, conditions) = input.generics.split_for_impl();
    let mut additions = TokenStream::new();
    for (member, field) in data.fields.members().zip(&data.fields) {
        additions.extend(match is_maximum(&field.attrs)? {
            true => quote!(self.#member = ::core::cmp::Ord::max(self.#member, other.#member);),
            false => quote!(::core::ops::AddAssign::add_assign(&mut self.#member, other.#member);),
        });
    }
    Ok(quote! {
        impl #parameters ::core::ops::AddAssign for #name #arguments #conditions {
            fn add_assign(&mut self, other: Self) {
                #additions
            }
        }
    })
}

fn is_maximum(attributes: &[Attribute]) -> Result<bool> {
    let mut is_maximum = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("counters")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("max") {
            true => {
                is_maximum = true;
                Ok(())
            }
            false => Err(meta.error("unknown option of `counters`; the only one is `max`")),
        })?;
    }
    Ok(is_maximum)
}
