/** The embedded server listens to this machine only, keeps what was committed, and logs no value; npm provides its programs. */
import { afterEach, expect, test, vi } from 'vitest'
import { serverEnvironment, settings } from '../../src/embedded/settings.ts'

afterEach(() => vi.unstubAllEnvs())

test('it listens on loopback only, with passwords that are not sent', () => {
  expect(settings(5433, false)).toMatchObject({
    ...{ listen_addresses: '127.0.0.1', port: '5433', unix_socket_directories: '' },
    password_encryption: 'scram-sha-256',
  })
})

test('what was committed survives a power cut, unless it is a test’s', () => {
  const safety = (unsafe: boolean) => {
    const { fsync, synchronous_commit, full_page_writes } = settings(1, unsafe)
    return [fsync, synchronous_commit, full_page_writes]
  }
  expect(safety(false)).toEqual(['on', 'on', 'on'])
  expect(safety(true)).toEqual(['off', 'off', 'off'])
})

test('its log contains no statement, parameter or detail, and its times are UTC', () => {
  expect(settings(1, false)).toMatchObject({
    ...{ log_min_error_statement: 'panic', log_error_verbosity: 'terse', log_statement: 'none' },
    ...{ log_min_duration_statement: '-1', timezone: 'UTC', log_timezone: 'UTC' },
    ...{ log_destination: 'stderr', logging_collector: 'off', log_min_messages: 'log' },
  })
})

test('it is made for bulk loads on a small machine, without replicas, and says nothing of checkpoints', () => {
  expect(settings(1, false)).toMatchObject({
    ...{ max_connections: '100', shared_buffers: '192MB', work_mem: '16MB', maintenance_work_mem: '128MB' },
    ...{ max_wal_size: '2GB', checkpoint_timeout: '15min', checkpoint_completion_target: '0.9' },
    ...{ wal_level: 'minimal', max_wal_senders: '0', max_logical_replication_workers: '0' },
    ...{ random_page_cost: '1.1', jit: 'off', log_checkpoints: 'off', log_line_prefix: '%m [%p] ' },
  })
})

test('its processes get the environment that programs need, and nothing else', () => {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'TEMP', 'TMP', 'LD_LIBRARY_PATH', 'SystemRoot', 'SYSTEMROOT']
  for (const name of kept) vi.stubEnv(name, `/${name}`)
  for (const name of ['DATABASE_URL', 'INTAKE_API_SECRET', 'PGPASSWORD']) vi.stubEnv(name, 'secret')
  vi.stubEnv('TZ', 'Asia/Tokyo')
  vi.stubEnv('LC_ALL', 'de_DE')
  const own = Object.fromEntries(kept.map((name) => [name, `/${name}`]))
  expect(serverEnvironment()).toEqual({ ...own, LC_ALL: 'C', TZ: 'UTC' })
  for (const name of kept) vi.stubEnv(name, undefined)
  expect(Object.keys(serverEnvironment())).toEqual(['LC_ALL', 'TZ'])
})
