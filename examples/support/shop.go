package main

import (
	"context"
	"fmt"
	"sync"
)

// shop is the backend of the desk, in practice a network service. It is safe for concurrent use.
type shop interface {
	Customer(ctx context.Context, id string) (customer, error)
	Order(ctx context.Context, id string) (order, error)

	// Reserve reserves the amount to refund for an order, and Pay pays it. Both are idempotent by key:
	// a repeated call returns the first result.
	Reserve(ctx context.Context, key, order string) (cents int64, err error)
	Pay(ctx context.Context, key string, cents int64) (receipt string, err error)
}

type customer struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// order is also the card that pages render.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Cents    int64  `json:"cents"`
	Status   string `json:"status"`
}

type stock struct {
	mu        sync.Mutex
	customers map[string]customer
	orders    map[string]order
	reserved  map[string]int64  // by key
	paid      map[string]string // by key
}

func newStock() *stock {
	return &stock{
		customers: map[string]customer{"c-1": {"c-1", "Ada"}, "c-2": {"c-2", "Grace"}},
		orders: map[string]order{
			"A1": {"A1", "c-1", "kettle", 2900, "delivered"},
			"A2": {"A2", "c-1", "toaster", 3900, "delivered"},
			"A3": {"A3", "c-1", "lamp", 5900, "on its way"},
			"B1": {"B1", "c-2", "radio", 7900, "delivered"},
		},
		reserved: map[string]int64{}, paid: map[string]string{},
	}
}

func (s *stock) Customer(_ context.Context, id string) (customer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.customers[id]
	if !ok {
		return c, fmt.Errorf("unknown customer %q", id)
	}
	return c, nil
}

func (s *stock) Order(_ context.Context, id string) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok {
		return o, fmt.Errorf("unknown order %q", id)
	}
	return o, nil
}

func (s *stock) Reserve(_ context.Context, key, id string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cents, ok := s.reserved[key]; ok {
		return cents, nil
	}
	o, ok := s.orders[id]
	if !ok || o.Status == "refunded" {
		return 0, fmt.Errorf("order %q cannot be refunded", id)
	}
	o.Status = "refunded"
	s.orders[id], s.reserved[key] = o, o.Cents
	return o.Cents, nil
}

func (s *stock) Pay(_ context.Context, key string, cents int64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.paid[key]; !ok {
		s.paid[key] = fmt.Sprintf("payment %d of %d.%02d", len(s.paid)+1, cents/100, cents%100)
	}
	return s.paid[key], nil
}
