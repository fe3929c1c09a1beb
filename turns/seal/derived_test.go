package seal

// goldenDerived is frozen: see TestDerivedKeysNeverChange. The values were computed a
// second time by a program in another language from what docs/FORMAT.md says.
var goldenDerived = map[string]string{
	"blob":            "02dae96d26d47efb147a5d73d5e4f9dcf14fa2476a5cea0daff2992df342f1",
	"blob digest":     "sha256:1dcb65f8a89a7a32aa3dc337ce61084c7c7c11671c247d0d8efea826e9ab0373",
	"blob digest key": "b24d38437f09d0e1eb468cd4787d2ea2f97b8aa21459df08a47310eeec87b128",
	"blob nonce key":  "0692d1c5dd4fb96a74b8cb1cf9754d2a0148b73dfdcbd2ea2bc5f703ed588591",
	"blob key":        "6789c273992b1642c9f32ee16d1f313bea6c73766c96f31a0324d07c6e213a55",
	"body key":        "3d6e0edf889adec16c57fd7f67e2e37d74c6b4a03ef0c723ef327244f0570af8",
	"channel":         "54628dd77e5745826673d10575cbbf04 5ZHMZRCKVS8NK77C0RCB7P21G8",
	"channel key":     "bb476dff564faacd5aa656b3106c55a69052a28e7616c587f70221a96e3fe9fa",
	"combined":        "60cae57d9e40542caba7ea4365c546576d0d025b37b2c0c007c64c00fa7902c1",
	"label":           "5898c195b0f1d07fed4fedf1f1ca4cfe",
	"label key":       "038961dd202ced53ae9309d8e4944fa7463f9735ef06f34477961cd007b809ac",
	"policy key":      "646dd49a2308a41cb770487c21e88695f1637f0c207c8c37f01c7823841481fe",
	"policy name":     "sha256:d2cf71463fd6241c22b4ceb7e4d64db5d281669fd6a630e987d6ffe00f336561",
	"label, no key":   "0cc16565b7fc74808a303ff3ad5b007e",
	"request":         "sha256:62f37e9951b672a2b5fbfb92b5ba83e4779d936e555bb0e71acedf4bb6451750",
	"request key":     "f722031599d9fbee8bf6c87db5cc3a839b5fcaee77e61aa00586eed405dd5ba9",
	"agent key":       "8c9cd897a70d9ee7360d279f58a5fd1fae5338c55512c1f84307a2c5b5254007",
	"agent key id":    "7ZZZZZZZZZANXDVGM4N9AV17C9",
	"document":        "sha256:e00e12a17da6bd0e7e6cdfce17ff80923dd9f9154612c439cef57f2a511e3eac",
	"memory":          "sha256:5c5b8a9441008bef5ecb46f6b3e192652179ef3c4b8d32618170610067344e5e",
	"memory key":      "84ec175f7b2e3a67b7005f3720c342f02efee3c68b204848ce01bfa1214fbfce",
	"memory, branch":  "sha256:df56699449dd708f1f8676377604c3575be05396bbc52f4d3d1df540666173b5",
	"memory, private": "sha256:ebcc137a718c931412cb16940d590fd3a762ca60854f90731b51f99f68288472",
}
