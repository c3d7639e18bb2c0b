/** The first ten minutes of README.md, as a reader types them: each command works, and says what README.md says. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, it } from 'vitest'
import { builtFile } from '../support/built.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'
import { playTenMinutes } from './support/play-readme.ts'

afterEach(() => cleanUp())

it('its commands run one after the other, in a path with spaces, and leave nothing running', async () => {
  const folder = join(temporaryDirectory(), 'a path')
  mkdirSync(folder)
  await playTenMinutes({
    ...{ folder, columns: null, command: `'${process.execPath}' '${builtFile('cli.js')}'` },
    env: { PATH: process.env.PATH, HOME: process.env.HOME, LOG_LEVEL: 'warn' },
  })
})
