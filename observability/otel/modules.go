//go:build modules

package otel

import "google.golang.org/genproto/protobuf/field_mask"

// This file is never built. The packages of genproto that the exporter uses are now in modules of
// their own, but the embedded bucket requires a genproto that still contains them. A module that
// requires both has duplicate packages and cannot be tidied. This import makes every dependent module
// choose a genproto without them.
var _ *field_mask.FieldMask
