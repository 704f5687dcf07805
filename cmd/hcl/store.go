package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/results"
)

// storeVariable is where the place of the store is looked for without --store.
const storeVariable = "HCL_STORE"

// storeFlag is of every verb that opens the store.
func (a *app) storeFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.store, "store", "", "keep results in this PostgreSQL database, `postgres://USER@HOST/NAME`, and not beside the lab; else "+storeVariable)
}

// sharedStore is the URL of the store that a team shares; empty: there is none.
func (a *app) sharedStore() (string, error) {
	place := cmp.Or(a.store, os.Getenv(storeVariable))
	if place != "" && !results.IsShared(place) {
		return "", usage("%s is not the URL of a PostgreSQL database, such as postgres://ada@db.example/bench",
			map[bool]string{true: "--store", false: storeVariable}[a.store != ""])
	}
	if u, err := url.Parse(a.store); err == nil && a.store != "" {
		if _, has := u.User.Password(); has || u.Query().Has("password") {
			a.logger().Warn("everybody on this machine can see the password in --store; ~/.pgpass, PGPASSWORD and " + storeVariable + " keep it to yourself")
		}
	}
	return place, nil
}

// storeDir is where a lab's results are kept, unless they are shared.
func storeDir(dir string) string { return filepath.Join(dir, ".hcl") }

// openStore opens the store of a lab, and makes it when there is none.
func (a *app) openStore(ctx context.Context, dir string) (*results.Store, error) {
	place, err := a.sharedStore()
	if err != nil {
		return nil, err
	}
	return a.openPlace(ctx, place, dir)
}

// openPlace opens a shared store, or without a place that of the lab in dir, and
// says what was dropped meanwhile.
func (a *app) openPlace(ctx context.Context, place, dir string) (store *results.Store, err error) {
	if place != "" {
		store, err = results.OpenShared(ctx, place, storeDir(dir), slog.New(a.logger()))
	} else {
		store, err = results.Open(ctx, storeDir(dir))
	}
	if err != nil {
		return nil, err
	}
	for _, d := range store.Dropped() {
		a.logger().Warn(d.String())
	}
	return store, nil
}

// openExisting opens a store for reading, or returns nil when nothing was ever
// stored: looking must leave no trace.
func (a *app) openExisting(ctx context.Context, dir string) (*results.Store, error) {
	place, err := a.sharedStore()
	if err != nil {
		return nil, err
	}
	if place == "" {
		if _, err := os.Stat(filepath.Join(storeDir(dir), "results.db")); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	return a.openPlace(ctx, place, dir)
}

// openStoreOf is openExisting for a lab that was named as one of two to compare: a
// store of its own goes before the one that is shared.
func (a *app) openStoreOf(ctx context.Context, dir string) (*results.Store, error) {
	if _, err := os.Stat(filepath.Join(storeDir(dir), "results.db")); err == nil {
		return a.openPlace(ctx, "", dir)
	}
	return a.openExisting(ctx, dir)
}

// existing opens the store of a lab in which something was measured.
func (a *app) existing(c *cobra.Command, args []string) (*results.Store, error) {
	dir := labDir(args)
	store, err := a.openExisting(c.Context(), dir)
	if err == nil && store == nil {
		err = &exit{exitFailed, fmt.Errorf("%w for the lab in %s yet; `hcl apply` measures it", errNothingStored, dir)}
	}
	return store, err
}

// openLocked opens a store for a lab into which nobody else measures meanwhile.
func (a *app) openLocked(ctx context.Context, cfg *hcl.Config, who string) (*results.Store, func() error, error) {
	store, err := a.openStore(ctx, cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := store.Lock(ctx, cfg.Lab.Name, who)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, unlock, nil
}

// labIn is the name of the lab that a verb is about, in a store with several: empty
// in a directory without a lab, which is about all of them. A lab whose name cannot
// be read is an error, and not all labs.
func labIn(store *results.Store, args []string) (string, error) {
	if store == nil || !store.Shared() {
		return "", nil
	}
	src, err := hcl.Read(labPath(args))
	if errors.Is(err, hcl.ErrNoLab) {
		return "", nil
	}
	name := ""
	if err == nil {
		name, err = hcl.NameOf(src)
	}
	if err != nil {
		return "", &exit{exitUsage, err}
	}
	return name, nil
}

// placeOf names a store for people.
func placeOf(store *results.Store) string {
	if store.Shared() {
		return store.Name()
	}
	return relative(store.Path())
}
