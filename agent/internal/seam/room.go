package seam

import (
	"context"
	"reflect"
)

// Room is the key of a func(size int64) (done func(), err error). A tool calls it before it encodes a
// value of about size bytes. It returns when the encoding may begin, and done ends the encoding.
type Room struct{}

// WaitForRoom waits until the result of a function may be encoded and returns the function that ends
// the encoding.
func WaitForRoom(ctx context.Context, v any, more int64) (done func(), err error) {
	wait, ok := ctx.Value(Room{}).(func(int64) (func(), error))
	if !ok {
		return func() {}, nil
	}
	return wait(Size(v) + more)
}

const (
	maxSized   = 1 << 14 // values that Size visits
	maxSamples = 256     // elements of one list or map that it visits
)

// Size estimates the bytes that a value holds, without calling its methods. It visits the first
// elements of long lists and maps, and a bounded number of values.
func Size(v any) int64 {
	budget := maxSized
	return sizeOf(reflect.ValueOf(v), &budget)
}

func sizeOf(v reflect.Value, budget *int) (n int64) {
	if *budget--; *budget < 0 || !v.IsValid() {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Slice, reflect.Array:
		if flat(v.Type().Elem().Kind()) {
			return int64(v.Len()) * int64(v.Type().Elem().Size())
		}
		most := min(v.Len(), maxSamples)
		for i := range most {
			n += int64(v.Type().Elem().Size()) + sizeOf(v.Index(i), budget)
		}
		return scale(n, v.Len(), most)
	case reflect.Map:
		most := 0
		for each := v.MapRange(); most < maxSamples && each.Next(); most++ {
			n += sizeOf(each.Key(), budget) + sizeOf(each.Value(), budget)
		}
		return scale(n, v.Len(), most)
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i), budget)
		}
		return n
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return sizeOf(v.Elem(), budget)
	default:
		return int64(v.Type().Size())
	}
}

// flat reports whether values of a kind hold no references.
func flat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }

// scale extrapolates the size of some elements to all.
func scale(n int64, all, some int) int64 {
	if some == 0 {
		return 0
	}
	return n / int64(some) * int64(all)
}
