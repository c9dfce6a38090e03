//! Metrics that fields declare: `#[derive(Metrics)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Lit, LitStr, Meta, Result,
    Token, Type,
};

/// The arguments of `#[metric(...)]`.
#[derive(Default)]
struct Declared {
    name: Option<LitStr>,
    /// The label of a family with a sample for each field of the field's type.
    by: Option<LitStr>,
    limit: Option<LitStr>,
}

pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => fields,
            _ => return Err(unfit(input)),
        },
        _ => return Err(unfit(input)),
    };
    let (mut metrics, mut named, mut limits) =
        (TokenStream::new(), TokenStream::new(), TokenStream::new());
    for field in &fields.named {
        let member = &field.ident;
        if is_type(&field.ty, "u64") {
            named.extend(quote!((stringify!(#member), self.#member),));
        }
        let Declared { name, by, limit } = declared(&field.attrs)?;
        if let Some(name) = name {
            let (help, read) = (help(field)?, read(field, by.as_ref()));
            metrics
                .extend(quote!(::stdx::metrics::Metric { name: #name, help: #help, read: #read },));
        }
        limits.extend(limit.map(|limit| quote!((#limit, self.#member),)));
    }
    let name = &input.ident;
    let (parameters, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        impl #parameters ::stdx::metrics::Metrics for #name #arguments #conditions {
            const METRICS: &'static [::stdx::metrics::Metric<Self>] = &[#metrics];

            fn named(&self) -> Vec<(&'static str, u64)> {
                vec![#named]
            }

            fn limits(&self) -> Vec<(&'static str, u64)> {
                vec![#limits]
            }
        }
    })
}

fn unfit(input: &DeriveInput) -> Error {
    let text = "Metrics can be derived for a struct with named fields only";
    Error::new_spanned(&input.ident, text)
}

fn declared(attributes: &[Attribute]) -> Result<Declared> {
    let mut declared = Declared::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("metric")) {
        attribute.parse_args_with(|input: syn::parse::ParseStream<'_>| {
            if input.peek(LitStr) {
                declared.name = Some(input.parse()?);
                let _: Option<Token![,]> = input.parse()?;
            }
            while !input.is_empty() {
                let key: syn::Ident = input.parse()?;
                let _: Token![=] = input.parse()?;
                let value = input.parse()?;
                match key.to_string().as_str() {
                    "by" => declared.by = Some(value),
                    "limit" => declared.limit = Some(value),
                    _ => {
                        let text = "unknown option of `metric`; options are `by` and `limit`";
                        return Err(Error::new_spanned(key, text));
                    }
                }
                let _: Option<Token![,]> = input.parse()?;
            }
            Ok(())
        })?;
    }
    Ok(declared)
}

/// The doc comment, in one line.
fn help(field: &Field) -> Result<String> {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = field.attrs.iter().filter_map(line).collect();
    if lines.is_empty() {
        Err(Error::new_spanned(field, "a metric needs a doc comment: it is its help"))
    } else {
        Ok(lines.join(" "))
    }
}

fn read(field: &Field, by: Option<&LitStr>) -> TokenStream {
    let member = &field.ident;
    match by {
        Some(label) => quote! {
            ::stdx::metrics::Read::By(#label, |all| ::stdx::metrics::Metrics::named(&all.#member))
        },
        None if is_type(&field.ty, "Histogram") => {
            quote!(::stdx::metrics::Read::Histogram(|all| all.#member))
        }
        None => quote!(::stdx::metrics::Read::Number(|all| all.#member)),
    }
}

fn is_type(found: &Type, name: &str) -> bool {
    match found {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        _ => false,
    }
}
