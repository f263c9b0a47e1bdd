package seam

import (
	"context"
	"reflect"
)

// Room is the key of a func(size int64) (done func(), err error): a tool calls it before it encodes a value that
// holds about size bytes. It returns when the encoding may begin, and done ends that.
type Room struct{}

// WaitForRoom waits until a value that a function returned may be encoded, and returns what ends that.
func WaitForRoom(ctx context.Context, v any, more int64) (done func(), err error) {
	wait, ok := ctx.Value(Room{}).(func(int64) (func(), error))
	if !ok {
		return func() {}, nil
	}
	return wait(Size(v) + more)
}

const (
	maxSized   = 1 << 14 // values that Size looks at
	maxSamples = 256     // elements of one list or map that it looks at
)

// Size estimates how many bytes a value holds, without calling any of its methods. It looks at the first elements
// of long lists and maps, and at a bounded number of values.
func Size(v any) int64 {
	looks := maxSized
	return sizeOf(reflect.ValueOf(v), &looks)
}

func sizeOf(v reflect.Value, looks *int) (n int64) {
	if *looks--; *looks < 0 || !v.IsValid() {
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
			n += int64(v.Type().Elem().Size()) + sizeOf(v.Index(i), looks)
		}
		return scale(n, v.Len(), most)
	case reflect.Map:
		most := 0
		for each := v.MapRange(); most < maxSamples && each.Next(); most++ {
			n += sizeOf(each.Key(), looks) + sizeOf(each.Value(), looks)
		}
		return scale(n, v.Len(), most)
	case reflect.Struct:
		for i := range v.NumField() {
			n += sizeOf(v.Field(i), looks)
		}
		return n
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return sizeOf(v.Elem(), looks)
	default:
		return int64(v.Type().Size())
	}
}

// flat reports whether a value of a kind refers to nothing.
func flat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }

// scale is what all of a list hold by what some of them hold.
func scale(n int64, all, some int) int64 {
	if some == 0 {
		return 0
	}
	return n / int64(some) * int64(all)
}
