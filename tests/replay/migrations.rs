//! Migrations by cause, bounces and domains.
