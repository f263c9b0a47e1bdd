//go:build modules

package otel

import "google.golang.org/genproto/protobuf/field_mask"

// Nothing builds this. What the exporter takes of genproto is in modules of its own by now, but
// the embedded bucket asks for a genproto in which it still was: a module that lists both has
// packages twice and cannot be tidied. For this import every module that depends on this one
// chooses a genproto without them.
var _ *field_mask.FieldMask
