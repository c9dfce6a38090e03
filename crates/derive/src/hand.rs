//! Conversion of structures to bytes and back: `#[derive(Hand)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Generics, Ident, Result, Variant};

/// The number of variants that one byte can distinguish.
const VARIANTS_MAX: usize = 256;

pub fn derive(mut input: DeriveInput) -> Result<TokenStream> {
    bind(&mut input.generics);
    let [give, take, layout] = match &input.data {
        Data::Struct(data) => of_struct(&data.fields),
        Data::Enum(data) => of_enum(&data.variants.iter().collect::<Vec<_>>(), &input.ident)?,
        Data::Union(_) => {
            let text =
                "Hand cannot be derived for a union: its bytes do not say which field is valid";
            return Err(Error::new_spanned(&input.ident, text));
        }
    };
    let name = &input.ident;
    let (parameters, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        impl #parameters ::stdx::handing::Hand for #name #arguments #conditions {
            fn give(&self, out: &mut Vec<u8>) {
                #give
            }

            fn take(input: &mut ::stdx::handing::Input<'_>) -> Option<Self> {
                #take
            }

            fn layout(layout: &mut ::stdx::handing::Layout) {
                layout.name(stringify!(#name));
                #layout
            }
        }
    })
}

/// Adds the bound `Hand` to every type parameter.
fn bind(generics: &mut Generics) {
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(syn::parse_quote!(::stdx::handing::Hand));
        }
    }
}

/// Generates the bodies of `give`, `take` and `layout`.
fn of_struct(fields: &Fields) -> [TokenStream; 3] {
    let Parts { pattern, give, take, layout } = parts(fields);
    [quote!(let Self #pattern = self; #give), quote!(Some(Self #take)), layout]
}

fn of_enum(variants: &[&Variant], name: &Ident) -> Result<[TokenStream; 3]> {
    if variants.is_empty() {
        let text = "Hand cannot be derived for an enum without variants: it has no value to read";
        return Err(Error::new_spanned(name, text));
    }
    if let Some(variant) = variants.get(VARIANTS_MAX) {
        let text =
            format!("Hand encodes a variant as one byte: an enum has at most {VARIANTS_MAX}");
        return Err(Error::new_spanned(variant, text));
    }
    let (mut gives, mut takes) = (TokenStream::new(), TokenStream::new());
    let mut layouts = TokenStream::new();
    for (tag, Variant { ident, fields, .. }) in (0..=u8::MAX).zip(variants) {
        let Parts { pattern, give, take, layout } = parts(fields);
        gives.extend(quote!(Self::#ident #pattern => { out.push(#tag); #give }));
        takes.extend(quote!(#tag => Some(Self::#ident #take),));
        layouts.extend(quote!(layout.name(stringify!(#ident)); #layout));
    }
    let give = quote!(match self { #gives });
    let take = quote!(match <u8 as ::stdx::handing::Hand>::take(input)? { #takes _ => None });
    Ok([give, take, layouts])
}

/// Code for the fields of a structure or variant.
struct Parts {
    /// The pattern that binds each field to its own name.
    pattern: TokenStream,
    give: TokenStream,
    /// The constructor expression that reads each field from `input`.
    take: TokenStream,
    layout: TokenStream,
}

fn parts(fields: &Fields) -> Parts {
    let bound: Vec<Ident> = (0..fields.len()).map(|at| format_ident!("field_{at}")).collect();
    let members: Vec<_> = fields.members().collect();
    let types = fields.iter().map(|field| &field.ty);
    let layouts = fields.iter().zip(types.clone()).map(|(field, type_)| {
        // A tuple field is identified by its type alone.
        let name = field.ident.as_ref().map(|name| quote!(layout.name(stringify!(#name));));
        quote!(#name <#type_ as ::stdx::handing::Hand>::layout(layout);)
    });
    Parts {
        pattern: quote!({ #(#members: #bound),* }),
        give: quote!(#(::stdx::handing::Hand::give(#bound, out);)*),
        take: quote!({ #(#members: <#types as ::stdx::handing::Hand>::take(input)?),* }),
        layout: quote!(#(#layouts)*),
    }
}
