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
	"hclbench/hcl/lang"
	"hclbench/results"
)

// storeVariable is where the place of the store is looked for without --store.
const storeVariable = "HCL_STORE"

func (f *labFlags) addStore(c *cobra.Command) {
	c.Flags().StringVar(&f.store, "store", "",
		"keep results in this PostgreSQL database, `postgres://USER@HOST/NAME`, and not beside the lab; else "+storeVariable)
}

const passwordSeen = "everybody on this machine can see the password in --store; ~/.pgpass, PGPASSWORD and " +
	storeVariable + " keep it to yourself"

// shared is the URL of the store that a team shares; empty: there is none.
func (f labFlags) shared(t *console) (string, error) {
	place := cmp.Or(f.store, os.Getenv(storeVariable))
	if place != "" && !results.IsShared(place) {
		from := "--store"
		if f.store == "" {
			from = storeVariable
		}
		return "", usage("%s is not the URL of a PostgreSQL database, such as postgres://ada@db.example/bench", from)
	}
	if u, err := url.Parse(f.store); err == nil && f.store != "" {
		if _, has := u.User.Password(); has || u.Query().Has("password") {
			t.logger().Warn(passwordSeen)
		}
	}
	return place, nil
}

// storeDir is where a lab's results are kept, unless they are shared.
func storeDir(dir string) string { return filepath.Join(dir, ".hcl") }

// openStore opens the store of a lab, and makes it when there is none.
func (f labFlags) openStore(ctx context.Context, t *console) (*results.Store, error) {
	place, err := f.shared(t)
	if err != nil {
		return nil, err
	}
	dir, store := f.dir(), (*results.Store)(nil)
	if place != "" {
		store, err = results.OpenShared(ctx, place, storeDir(dir), slog.New(t.logger()))
	} else {
		store, err = results.Open(ctx, storeDir(dir))
	}
	if err != nil {
		return nil, err
	}
	for _, d := range store.Dropped() {
		t.logger().Warn(d.String())
	}
	return store, nil
}

// look opens a store to be read, or returns nil when nothing was ever stored: looking must leave no trace.
func (f labFlags) look(ctx context.Context, t *console) (*results.Store, error) {
	place, err := f.shared(t)
	if err != nil {
		return nil, err
	}
	return lookAt(ctx, t, place, f.dir())
}

// lookAt looks at a shared store, or without a place at that of the lab in dir.
func lookAt(ctx context.Context, t *console, place, dir string) (store *results.Store, err error) {
	if place != "" {
		store, err = results.LookShared(ctx, place, storeDir(dir), slog.New(t.logger()))
	} else {
		store, err = results.Look(ctx, storeDir(dir))
	}
	if errors.Is(err, results.ErrNothing) {
		return nil, nil
	}
	return store, err
}

func hasStore(dir string) bool {
	_, err := os.Stat(filepath.Join(storeDir(dir), "results.db"))
	return !errors.Is(err, os.ErrNotExist)
}

var errNothingStored = errors.New("nothing is stored")

// existing opens the store of a lab in which something was measured.
func (f labFlags) existing(ctx context.Context, t *console) (*results.Store, error) {
	store, err := f.look(ctx, t)
	if err == nil && store == nil {
		err = nothingIn(f.dir())
	}
	return store, err
}

func nothingIn(dir string) error {
	return &exit{exitFailed, fmt.Errorf("%w for the lab in %s yet; `hcl apply` measures it", errNothingStored, dir)}
}

// results is existing, with the name of the lab that is meant; see [labFlags.labIn].
func (f labFlags) results(ctx context.Context, t *console) (store *results.Store, lab string, err error) {
	if store, err = f.existing(ctx, t); err != nil {
		return nil, "", err
	}
	if lab, err = f.labIn(store); err != nil {
		return nil, "", errors.Join(err, store.Close())
	}
	return store, lab, nil
}

// locked opens the store of a lab into which nobody else measures until it is closed.
func (f labFlags) locked(ctx context.Context, t *console, lab, who string) (*results.Store, func(), error) {
	store, err := f.openStore(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := store.Lock(ctx, lab, who)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, func() {
		_ = unlock() // the lock is dropped with the process
		_ = store.Close()
	}, nil
}

// labIn is the name of the lab that a verb is about, in a store with several: empty
// in a directory without a lab, which is about all of them.
func (f labFlags) labIn(store *results.Store) (string, error) {
	if store == nil || !store.Shared() {
		return "", nil
	}
	return f.name()
}

// name is the lab's; empty: there is none. One whose name cannot be read is an error.
func (f labFlags) name() (string, error) {
	src, err := lang.Read(f.path)
	if errors.Is(err, lang.ErrNoLab) {
		return "", nil
	}
	name := ""
	if err == nil {
		name, err = hcl.NameOf(src)
	}
	return name, asUsage(err)
}

// placeOf names a store for people.
func placeOf(store *results.Store) string {
	if store.Shared() {
		return store.Name()
	}
	return relative(store.Path())
}
