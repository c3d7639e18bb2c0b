/** The paths of the service: which a configuration may set, and which ids a path can carry. */
import { describe, expect, test } from 'vitest'
import { DEFAULT_PATHS, expandPath, pathsWith } from '../../src/api/paths.ts'
import { IntakeError, UsageError } from '../../src/core/errors.ts'

function errorOf(run: () => unknown): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

test('the paths of the specification are the default', () => {
  expect(pathsWith()).toEqual({
    patients: '/v2/patients',
    patient: '/v2/patients/{id}',
    patientUploads: '/v2/patients/batch-upload',
    patientUpload: '/v2/patients/batch-upload/{id}',
    messages: '/v2/messages',
    message: '/v2/messages/{id}',
    scheduledMessage: '/v2/messages/{id}/scheduled',
    forms: '/v2/forms',
    form: '/v2/forms/{id}',
    packets: '/v2/packets',
    packet: '/v2/packets/{id}',
    documents: '/v2/documents',
    document: '/v2/documents/{id}',
    responses: '/v2/responses',
    response: '/v2/responses/{id}',
    exports: '/v2/export-csv',
    webhookConfigs: '/v2/webhooks',
    webhookConfig: '/v2/webhooks/{id}',
    webhookDeliveries: '/v2/webhooks/events',
    webhookTest: '/v2/webhooks/events/test',
  })
})

describe('a configuration', () => {
  test('replaces a path, and adds none', () => {
    const endpoints = [{ name: 'appointments', path: '/v2/appointments' }]
    const paths = pathsWith({ patient: '/v3/people/{id}/', appointments: '/v3/dates' }, endpoints)
    expect(paths).toEqual({ ...DEFAULT_PATHS, patient: '/v3/people/{id}/', appointments: '/v3/dates' })
    expect(pathsWith({}, endpoints)).toMatchObject({ appointments: '/v2/appointments' })
    // A stream may read a resource of the specification from elsewhere.
    const moved = [{ name: 'forms', path: '/v2.1/forms' }]
    expect(pathsWith({}, moved)).toEqual({ ...DEFAULT_PATHS, forms: '/v2.1/forms' })
    expect(pathsWith({ forms: '/v3/forms' }, moved).forms).toBe('/v3/forms')
  })

  test('with a wrong name is shown all names, those of resources that were added too', () => {
    const error = errorOf(() =>
      pathsWith({ x: '/v2/x' }, [{ name: 'appointments', path: '/v2/appointments' }]),
    )
    expect(error).toMatchObject({
      message: 'paths.x is not a path of the service',
      hint: `Use one of: ${[...Object.keys(DEFAULT_PATHS), 'appointments'].join(', ')}.`,
    })
  })

  test.each(['appointments', 'toString', '__proto__', ''])(
    'cannot name the path %j, which does not exist',
    (name) => {
      const error = errorOf(() => pathsWith(Object.fromEntries([[name, '/v2/x']])))
      expect(error).toBeInstanceOf(UsageError)
      expect(error).toMatchObject({ variable: 'paths' })
      expect((error as UsageError).hint).toContain('patients, patient, ')
    },
  )

  test.each([
    ['patients', 'v2/patients'],
    ['patients', '//elsewhere.example.com/v2'],
    ['patients', 'https://elsewhere.example.com/v2'],
    ['patients', '/v2/patients?all=1'],
    ['patients', '/v2/patients#all'],
    ['patients', '/v2\\patients'],
    ['patients', '/v2/pa tients'],
    ['patients', '/v2/pätients'],
    ['patients', '/v2/../patients'],
    ['patients', '/v2/./patients'],
    ['patients', '/v2/%2E%2e/patients'],
    ['patients', '/v2/%2e'],
    ['patients', ''],
    ['patients', '/v2/patients/{id}'],
    ['patient', '/v2/patients'],
  ])('cannot set paths.%s to %j', (name, path) => {
    const error = errorOf(() => pathsWith({ [name]: path }))
    expect(error).toBeInstanceOf(UsageError)
    expect(error).toMatchObject({ code: 'setting_invalid', variable: 'paths' })
    expect((error as UsageError).message).toContain(`paths.${name} must`)
  })

  test.each(['/', '/v2', '/v2/...', '/v2/a.b', '/v2/%2e%2e%2e', '/~!$&()*+,;=:@'])(
    'may set a path to %j',
    (path) => {
      expect(pathsWith({ patients: path }).patients).toBe(path)
    },
  )
})

describe('an id', () => {
  test.each([
    ['7', '/v2/patients/7'],
    ['a/b?c#d', '/v2/patients/a%2Fb%3Fc%23d'],
    ['é 😀', '/v2/patients/%C3%A9%20%F0%9F%98%80'],
    ['...', '/v2/patients/...'],
    ['a.', '/v2/patients/a.'],
  ])('%j stays in its own segment', (id, path) => {
    expect(expandPath('/v2/patients/{id}', { id })).toBe(path)
  })

  test.each(['', '.', '..', '%2e', '%2E.', '\ud83d', undefined])('%j cannot be part of a path', (id) => {
    const error = errorOf(() => expandPath('/v2/patients/{id}', { id }))
    expect(error).toBeInstanceOf(IntakeError)
    expect(error).toMatchObject({ code: 'bad_id', verdict: 'dead_letter' })
    expect((error as IntakeError).message).toBe('/v2/patients/{id}: a path cannot contain this id')
  })

  test('replaces every placeholder that has its name', () => {
    expect(expandPath('/a/{id}/b/{other}/{id}', { id: '1', other: '2' })).toBe('/a/1/b/2/1')
    expect(expandPath('/a/b')).toBe('/a/b')
  })
})

test('a template that is no path is a wrong configuration', () => {
  for (const template of ['a/b', '//a', '/a?b', '/a/../b']) {
    expect(errorOf(() => expandPath(template))).toBeInstanceOf(UsageError)
  }
})
