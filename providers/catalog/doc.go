// Package catalog contains built-in data about 41 providers and 1,608 models: wire format, endpoint,
// windows, input types, prices, thinking levels and server deviations.
//
// Commands pass [Builtin] to providers.NewRegistry. The data is embedded and never fetched;
// [Provenance] returns its age. Registrations override it and may add unlisted models. Outdated data
// therefore affects prices and windows, but not access to a model.
//
// catalog.json.gz is generated from a package published by others under the licence in NOTICE.
// generate_internal_test.go documents the procedure and lists omitted data: identities of other
// programs in headers, display names, models of unsupported wire formats, and members that no codec
// reads. The variables that contain keys, in env.go, are maintained manually.
//
// Guarantees:
//
//  1. The data is decoded once, when a model is first requested. Providers and their variables do not
//     need it.
//  2. The first model of a provider determines wire format and endpoint of unlisted models. New data
//     does not change them: a test pins the list.
//  3. Prices are the exact numbers of the source.
//
// Functions are safe for concurrent use.
package catalog
