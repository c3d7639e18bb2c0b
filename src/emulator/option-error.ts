/** An option of the emulator that cannot be used as given. `option` is its name on the command line, without dashes. */
export class EmulatorOptionError extends Error {
  readonly option: string

  constructor(option: string, message: string) {
    super(`--${option}: ${message}`)
    this.name = 'EmulatorOptionError'
    this.option = option
  }
}
