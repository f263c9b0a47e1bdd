// Package catalog holds what is known about models without any registration: for 41
// providers and 1,608 models the wire format, endpoint, windows, kinds of input, prices,
// thinking levels and the quirks of their servers.
//
// Commands hand [Builtin] to providers.NewRegistry. Nothing is fetched, ever: the data is
// part of the program, and its age shows in [Provenance]. A registration overrides all of
// it, and makes models callable that it does not list, so old data costs prices and
// windows and not the way to a model.
//
// catalog.json.gz is made from a package that others publish under the licence in NOTICE,
// by generate_internal_test.go, which says how and lists what is left out: identities of
// other programs in headers, names for people, models of wire formats that no codec is
// planned for, and members that no codec reads. The variables that hold keys, in env.go,
// are written by hand.
//
// Guarantees:
//
//  1. The data is decoded when models of it are asked for for the first time, and once: the
//     providers and their variables are known without it.
//  2. The first model of a provider has the wire format and endpoint that a model takes
//     which is not listed. New data does not change them: a test holds the list.
//  3. Prices are the numbers of the source, digit for digit.
//
// Functions are safe for concurrent use. Nothing here is durable.
package catalog
