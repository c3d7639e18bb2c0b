/**
 * Settings of the embedded server.
 *
 * Invariant: what was committed survives a power cut (unless the data are a test's), nobody but a holder of the
 * password on this machine gets in, and the server's log holds no value of a row: statements, parameters and
 * details stay out of it (law 8).
 */

/** Applied on each start, so that a new release brings its settings to an old data directory. */
export function settings(port: number, unsafe: boolean): Record<string, string> {
  return {
    listen_addresses: '127.0.0.1',
    port: String(port),
    // No sockets: a path to one may be 107 bytes at most, and a data directory may lie deeper.
    unix_socket_directories: '',
    password_encryption: 'scram-sha-256',
    max_connections: '100',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // Bulk loads on a small machine: few checkpoints, modest memory, no write-ahead log for replicas there are not.
    shared_buffers: '192MB',
    work_mem: '16MB',
    maintenance_work_mem: '128MB',
    max_wal_size: '2GB',
    checkpoint_timeout: '15min',
    checkpoint_completion_target: '0.9',
    wal_level: 'minimal',
    max_wal_senders: '0',
    max_logical_replication_workers: '0',
    random_page_cost: '1.1',
    jit: 'off',
    log_destination: 'stderr',
    logging_collector: 'off',
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_statement: 'none',
    log_min_duration_statement: '-1',
    log_checkpoints: 'off',
    log_line_prefix: '%m [%p] ',
    fsync: unsafe ? 'off' : 'on',
    synchronous_commit: unsafe ? 'off' : 'on',
    full_page_writes: unsafe ? 'off' : 'on',
  }
}

/** The part of the environment that a server process needs; no credentials. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'TEMP', 'TMP', 'LD_LIBRARY_PATH', 'SystemRoot', 'SYSTEMROOT']
  const environment: NodeJS.ProcessEnv = { LC_ALL: 'C', TZ: 'UTC' }
  for (const name of kept) if (process.env[name] !== undefined) environment[name] = process.env[name]
  return environment
}
