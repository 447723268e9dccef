module cadre.test/fault/proxy

go 1.26.0
